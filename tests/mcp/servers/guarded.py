"""A server that requires a login, and its own authorisation server: `guarded.py http PORT`.

With `registered` in place of `http` nobody can register: it knows one client, "known", with the secret "s3cret".

Rule: the login page redirects every visitor at once, with a code; tokens and clients are kept in memory.
"""

import secrets
import sys
import time

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken


class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Grants everything."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params: AuthorizationParams):
        code = secrets.token_hex(16)
        self.codes[code] = AuthorizationCode(
            code=code,
            client_id=client.client_id,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client, authorization_code):
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code):
        del self.codes[authorization_code.code]
        token = AccessToken(
            token=secrets.token_hex(16), client_id=client.client_id, scopes=[], resource=authorization_code.resource
        )
        self.tokens[token.token] = token
        return OAuthToken(access_token=token.token, expires_in=3_600)

    async def load_refresh_token(self, client, refresh_token):
        return None

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        raise NotImplementedError

    async def load_access_token(self, token):
        return self.tokens.get(token)

    async def revoke_token(self, token):
        self.tokens.pop(token.token, None)


def main(way: str, port: str) -> None:
    """Serve."""
    provider = Provider()
    if way == "registered":
        provider.clients["known"] = OAuthClientInformationFull(
            client_id="known",
            client_secret="s3cret",
            redirect_uris=[f"http://127.0.0.1:{int(port) + 1}/callback"],
            token_endpoint_auth_method="client_secret_basic",
        )
    url = f"http://127.0.0.1:{port}"
    settings = AuthSettings(
        issuer_url=url,
        resource_server_url=f"{url}/mcp",
        validate_token_resource=True,
        client_registration_options=ClientRegistrationOptions(enabled=way != "registered"),
    )
    server = MCPServer("guarded", auth_server_provider=provider, auth=settings)

    @server.tool()
    def secret() -> str:
        """Tell the secret."""
        return "the secret"

    uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=int(port), log_level="warning")


if __name__ == "__main__":
    main(*sys.argv[1:])
