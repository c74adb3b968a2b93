"""The head of an operator's text file: fields between lines of `---`, as skills, commands and agents have them.

Rule: a field is `name: value` on one line; a head of another form is text.
"""


def read_front_matter(text: str) -> tuple[dict[str, str], str]:
    """Split a text into the fields of its head, and the rest."""
    if not text.startswith("---\n") or "\n---\n" not in text:
        return {}, text
    head, _, rest = text[4:].partition("\n---\n")
    fields = (line.partition(":") for line in head.splitlines() if ":" in line and not line.startswith(" "))
    return {name.strip(): value.strip().strip("\"'") for name, _, value in fields}, rest.lstrip("\n")
