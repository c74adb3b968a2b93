"""The head of an operator's text file: fields between lines of `---`, as skills, commands and agents have them.

A field is `name: value` on one line, or `name:` and a list with an item `- value` on each of the next lines; a
head of another form is text.
"""


def read_front_matter(text: str) -> tuple[dict[str, str], str]:
    """Split a text into the fields of its head, and the rest; the items of a list are joined by commas."""
    if not text.startswith("---\n") or "\n---\n" not in text:
        return {}, text
    head, _, rest = text[4:].partition("\n---\n")
    fields: dict[str, str] = {}
    name = ""
    for line in head.splitlines():
        item = line.strip()
        if name and item.startswith("- "):
            fields[name] = ", ".join(filter(None, (fields[name], _unquoted(item[2:]))))
        elif ":" in line and not line.startswith(" "):
            name, value = (part.strip() for part in line.split(":", 1))
            fields[name] = _unquoted(value)
    return fields, rest.lstrip("\n")


def _unquoted(text: str) -> str:
    return text.strip().strip("\"'")
