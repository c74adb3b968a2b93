"""Loads a dialect from the `response_template` in a model's `tokenizer_config.json`.

Rule: like the dialect of a folder, it is loaded only if its parser reads what its templates write.
"""

import functools
import json
from pathlib import Path

from jinja2 import TemplateError

from fcshim.errors import ConfigError
from fcshim.files import read_limited
from fcshim.parse.dialect import Dialect
from fcshim.parse.response_template.shapes import template_dialect
from fcshim.parse.response_template.template import decode_template
from fcshim.prompt.dialect_check import check_dialect

FILE = "tokenizer_config.json"
_MAX_FILE = 16 * 2**20
"""Bytes of the file; with the tokens that some models list in it, it has more than 1 MB."""
_KEY = "response_template"
_OLD_KEY = "response_schema"


@functools.cache
def load_template_file(path: Path) -> Dialect:
    """Load the dialect of a file (cached). Raises `ConfigError` with the file."""
    try:
        data = read_limited(path, _MAX_FILE + 1)
        if len(data) > _MAX_FILE:
            raise ConfigError(f"{path}: expected at most {_MAX_FILE} bytes of JSON")
        config = json.loads(data.decode())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not JSON: {error}") from error
    if not isinstance(config, dict) or _KEY not in config:
        old = f" (its {_OLD_KEY} is an older format)" if isinstance(config, dict) and _OLD_KEY in config else ""
        raise ConfigError(f"{path}: expected the key {_KEY!r}{old}")
    try:
        dialect = template_dialect(path.resolve().parent.name or path.stem, decode_template(config[_KEY]))
        check_dialect(dialect)
    except (ConfigError, TemplateError) as error:
        raise ConfigError(f"{path}: {error}") from error
    return dialect
