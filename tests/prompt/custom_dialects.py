"""The custom dialects of `custom_dialects.toml`, as folders."""

import shutil
import tomllib
from pathlib import Path

from fcshim.resources import resource_dir

_DATA = tomllib.loads((Path(__file__).parent / "custom_dialects.toml").read_text(encoding="utf-8"))
SOUND: dict[str, dict[str, str]] = _DATA["sound"]
BROKEN: dict[str, dict[str, str]] = _DATA["broken"]
_TEMPLATES = {
    "system": "{% for tool in tools %}\n{{ tool | json }}\n{% endfor %}\n",
    "result": "{{ result_open }}>{{ content }}{{ result_close }}\n",
}


def make_folder(folder: Path, row: dict[str, str]) -> Path:
    """Write the files of one custom dialect."""
    if "copy" in row:
        shutil.copytree(resource_dir("templates") / row["copy"], folder)
    else:
        folder.mkdir()
    own = {name: row[name] for name in ("call", "calls") if name in row}
    for name, text in ((own if "copy" in row else _TEMPLATES) | own).items():
        (folder / f"{name}.jinja").write_text(text.strip() + "\n", encoding="utf-8")
    (folder / "dialect.toml").write_text(row["dialect"], encoding="utf-8")
    return folder
