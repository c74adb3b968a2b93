"""Convert Python and JSON atoms (numbers, `True`, `None`, ...) to JSON.

Rule: a word that is not a number or literal gives None; nothing is ever evaluated.
"""

import re

_LITERALS = {"None": "null"} | {
    word: word.lower() for word in ("true", "false", "null", "True", "False", "TRUE", "FALSE", "NULL")
}
_DIGITS = r"\d(?:_?\d)*"
_DECIMAL = re.compile(
    rf"([+-]?)(?!0_?\d)({_DIGITS})?(?:(\.)({_DIGITS})?)?([eE][+-]?{_DIGITS})?",
    re.ASCII,
)
_RADIX_INTEGER = re.compile(
    r"([+-]?)(0[xX](?:_?[0-9a-fA-F]){1,1000}|0[oO](?:_?[0-7]){1,1000}|0[bB](?:_?[01]){1,1000})", re.ASCII
)
"""The bound is that of `str()`, which refuses integers of more than 4,300 decimal digits."""


def atom_to_json(token: str) -> str | None:
    """Return the JSON of an atom such as `1_000`, `0x1F`, `+1`, `.5`, `5.` or `None`; None for any other word.

    A number with a leading zero has several readings: octal digits, a string of digits, two numbers.
    """
    if token in _LITERALS:
        return _LITERALS[token]
    based = _RADIX_INTEGER.fullmatch(token)
    if based is not None:
        return ("-" if based[1] == "-" else "") + str(int(based[2].replace("_", ""), 0))
    found = _DECIMAL.fullmatch(token)
    if found is None or not (found[2] or found[4]):
        return None
    sign, whole, point, fraction, exponent = found.groups()
    text = ("-" if sign == "-" else "") + (whole or "0")
    text += f".{fraction or '0'}" if point else ""
    return (text + (exponent or "")).replace("_", "")
