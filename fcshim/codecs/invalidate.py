"""Spoiling: what is added to the arguments of a call that must not run, once some of them were sent.

Rule: `arguments + spoil(arguments)` is no JSON and no beginning of JSON: it closes what never was opened.
Why: measured, LangChain completes a truncated `{"path": "/e` to `{"path": "/e"}` and runs the call, whatever the finish
reason says; a closing bracket of the wrong kind makes it an invalid call there, as in every strict reader.
Neighbours: `held`, which spoils what was sent of a call that ends badly.
"""


def invalidating_suffix(arguments: str) -> str:
    """Give the characters that make a prefix of one JSON object unreadable."""
    opened, in_string, escaped = _scan_brackets(arguments)
    quote = ('"' if escaped else "") + '"' if in_string else ""
    if not arguments.strip():
        return "{]"
    return quote + ("}" if opened[-1:] == ["["] else "]")


def _scan_brackets(text: str) -> tuple[list[str], bool, bool]:
    """Give the brackets that are open at the end, and whether the end is in a string, or after a backslash there."""
    opened: list[str] = []
    in_string = escaped = False
    for character in text:
        if escaped:
            escaped = False
        elif in_string:
            escaped = character == "\\"
            in_string = character != '"'
        elif character == '"':
            in_string = True
        elif character in "{[":
            opened.append(character)
        elif character in "}]" and opened:
            opened.pop()
    return opened, in_string, escaped
