"""Invalidating the arguments of a call that must not run, after some of them were sent.

Rule: `arguments + invalidating_suffix(arguments)` is neither JSON nor a prefix of JSON, because the suffix closes a
bracket that is not open.
Why: measured, LangChain completes a truncated `{"path": "/e` to `{"path": "/e"}` and runs the call, whatever the finish
reason says; a closing bracket of the wrong kind makes it an invalid call there, as in every strict reader.
"""


def invalidating_suffix(arguments: str) -> str:
    """Return the characters that make a prefix of one JSON object invalid."""
    opened, in_string, escaped = _scan_brackets(arguments)
    # After a backslash the first quote is an escaped character, so that a second one is needed to close the string.
    quote = ('"' if escaped else "") + '"' if in_string else ""
    if not arguments.strip():
        return "{]"
    return quote + ("}" if opened[-1:] == ["["] else "]")


def _scan_brackets(text: str) -> tuple[list[str], bool, bool]:
    """Return the brackets open at the end, whether the end is inside a string, and whether a backslash precedes it."""
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
