"""The proxy: an ASGI application, and the server that runs it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fcshim.server.app import App


def create_app_from_env() -> "App":
    """Make the application for any ASGI server: `uvicorn --factory fcshim.server:create_app_from_env`.

    The settings come from the environment (`FCSHIM_*`) and the file that `FCSHIM_CONFIG` names, as for `fcshim serve`.
    Where to listen, in how many processes, and when to stop is up to the server; `FCSHIM_HOST` must say where it
    listens, unless that is loopback. Raises `ConfigError`.
    """
    from fcshim.server.run import app_from_env  # noqa: PLC0415 - each module of this package would import the server

    return app_from_env()
