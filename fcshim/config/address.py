"""Validates the address of an endpoint.

Rule: an invalid address is refused before anything is sent, and also one that may contain a key, since logs and
messages show addresses.
"""

from urllib.parse import urlsplit

from fcshim.errors import ConfigError


def check_address(text: str, where: str) -> None:
    """Raise `ConfigError` for an invalid address; `where` names the setting."""
    if any(character in text for character in "@?#"):
        raise ConfigError(f"{where}: expected a URL without user, query and fragment; a key has its own setting")
    if not _is_usable(text):
        raise ConfigError(f"{where}: expected a URL such as http://127.0.0.1:8080, got {text!r:.80}")


def _is_usable(text: str) -> bool:
    try:
        url = urlsplit(text)
        return url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
    except ValueError:
        return False
