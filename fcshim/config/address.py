"""What is taken for the address of an endpoint.

Rule: a mistake is told before anything is sent; one that may carry a key is refused, since addresses are shown.
Neighbours: `load` and the client ask for it.
"""

from urllib.parse import urlsplit

from fcshim.errors import ConfigError


def check_address(text: str, where: str) -> None:
    """Refuse what is no address; `where` names the setting. Raises `ConfigError`."""
    if any(sign in text for sign in "@?#"):
        raise ConfigError(f"{where}: expected a URL without user, query and fragment; a key is a setting of its own")
    if not _is_usable(text):
        raise ConfigError(f"{where}: expected a URL such as http://127.0.0.1:8080, got {text!r:.80}")


def _is_usable(text: str) -> bool:
    try:
        url = urlsplit(text)
        return url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
    except ValueError:
        return False
