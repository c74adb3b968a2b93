"""Where requests carry credentials: headers, query parameters and body fields. Each value has `CANARY` in it once."""

import itertools
import json

CANARY = "canary7f3a9"
_numbers = itertools.count(1)


def canary() -> str:
    """Return a new value to look for: no other one masks it."""
    return f"{CANARY}x{next(_numbers):04d}"


HEADERS = {
    "authorization": f"Bearer {canary()}",
    "proxy-authorization": f"Basic {canary()}",
    **{
        name: canary()
        for name in (
            *("x-api-key", "api-key", "apikey", "x-goog-api-key", "x_api_key", "Ocp-Apim-Subscription-Key"),
            *("x-auth-token", "X-Amz-Security-Token", "x-vault-token", "private-token", "x-auth", "X-Access-Token"),
            *("cf-access-client-secret", "x-hub-signature-256", "x-session-key", "x-client-secret", "x-jwt-assertion"),
            *("x-forwarded-authorization", "x-ms-token-aad-access-token", "x-functions-key", "x-password"),
        )
    },
    "cookie": f"session={canary()}; theme={canary()}",
}
QUERY = {
    name: canary()
    for name in (
        *("key", "api_key", "apikey", "api-key", "access_token", "token", "id_token", "client_secret", "code", "sig"),
        *("X-Amz-Signature", "X-Goog-Signature", "X-Amz-Security-Token", "subscription-key", "password", "pwd", "auth"),
        *("%6bey", "access%5Ftoken", "AWSAccessKeyId", "X-Amz-Credential", "jwt", "secret", "auth_token"),
    )
}
URL = "https://mcp.example"
BODY = {
    **{
        name: canary()
        for name in (
            *("password", "passwd", "pwd", "passphrase", "api_key", "apiKey", "APIKEY", "x-api-key", "access_token"),
            *("accessToken", "refresh_token", "client_secret", "clientSecret", "private_key", "secretAccessKey"),
            *("aws_session_token", "authorization", "auth", "bearer", "jwt", "credential", "otp", "db_password"),
            *("GITHUB_TOKEN", "OPENAI_API_KEY", "signing_key", "Pass-Word", "webhook_secret", "ssh_key", "pin_code"),
        )
    },
    "mcp_servers": [{"type": "url", "url": URL, "authorization_token": canary()}],
    "extra": {
        "servers": [{"headers": {"Authorization": f"Bearer {canary()}", "X-Custom-Key": canary()}}],
        "credentials": {"user": canary(), "value": canary(), "parts": [canary(), {"inner": canary()}]},
        "secrets": [canary(), canary()],
        "pairs": [{"name": "Authorization", "value": f"Bearer {canary()}"}, {"key": "password", "value": canary()}],
        "env": {"HF_TOKEN": canary(), "DATABASE_PASSWORD": canary()},
        "text": json.dumps({"nested": json.dumps({"password": canary()})}),
        "urls": [
            f"{URL}/sse?api_key={canary()}&x=1",
            f"https://user:{canary()}@mcp.example/path",
            f"see {URL}/?x=1&access_token={canary()} there",
            f"wss://mcp.example/#token={canary()}",
        ],
    },
}
"""Fields of the body that its API does not know; they stand beside those that it does."""
