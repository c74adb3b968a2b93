"""The table of kinds of characters, with the tokens that one takes, and the count of a text by kinds."""

import re

KINDS: tuple[tuple[str, float, float], ...] = (
    ("prompt", 0, 400),
    ("message", 0, 14),
    ("optional", 0, 1.5),
    ("letter", 0.17, 0.42),
    ("switch", 0, 1.0),
    ("digit", 0.3, 1.25),
    ("punctuation", 0.2, 0.9),
    ("gap", 0.35, 2.5),
    ("latin", 0.35, 2.4),
    ("greek", 0.3, 1.6),
    ("cyrillic", 0.25, 1.5),
    ("hebrew", 0.25, 1.6),
    ("arabic", 0.25, 1.6),
    ("devanagari", 0.2, 2.6),
    ("thai", 0.25, 2.6),
    ("indic", 0.2, 3.1),
    ("other", 0.2, 3.1),
    ("kana", 0.35, 1.6),
    ("han", 0.45, 2.4),
    ("hangul", 0.4, 3.1),
    ("symbol", 0, 4),
    ("emoji", 0.2, 5),
)
"""Kinds of characters, with the fewest and the most tokens for one, of 11 tokenizers (`benchmarks/prompt_loss.py`).

`prompt`: what a chat template writes once, a system prompt of its own included. `message`: the markers around one.
`optional`: what templates may leave out (reasoning of earlier turns, tools), and media. `gap`: a line break with its
indentation, or several blanks. `switch`: where case changes, or a letter and a digit meet, as in base64.
"""
PROMPT, MESSAGE, OPTIONAL = range(3)
_LETTER, _SWITCH = 3, 4
_DEVANAGARI, _THAI, _INDIC = range(13, 16)

_LEADS = (
    (0x00, "g"), (0x21, "p"), (0x30, "d"), (0x3A, "p"), (0x41, "u"), (0x5B, "p"), (0x61, "l"), (0x7B, "p"), (0x7F, "g"),
    (0xC0, "L"), (0xCD, "G"), (0xD0, "C"), (0xD4, "O"), (0xD6, "W"), (0xD8, "A"), (0xE0, "I"), (0xE1, "O"), (0xE2, "Y"),
    (0xE3, "K"), (0xE4, "H"), (0xEA, "R"), (0xEE, "Y"), (0xF0, "E"),
)  # fmt: skip
"""The codes of the bytes of UTF-8, from each one to the next. Continuation bytes are left out."""
_CODES = "...l.dpwLGCWA..IOKHRYE"
"""The code of each kind, `.` for one that is counted otherwise."""
_IN_DEVANAGARI, _IN_THAI = re.compile(rb"\xe0[\xa4\xa5]"), re.compile(rb"\xe0[\xb8-\xbb]")
_TABLE = bytes(ord(next(kind for start, kind in reversed(_LEADS) if byte >= start)) for byte in range(256))
_CONTINUATION = bytes(range(0x80, 0xC0))
_LONG_RUN = re.compile(rb"p{4,}")
_GAP_RUN = re.compile(rb"gg+")
_SWITCHES = re.compile(rb"l[ud]|d[lu]|ud")

Sizes = tuple[int, ...]
"""How much of each of `KINDS`."""


def sizes_of(text: str) -> Sizes:
    """Count a text by kinds. Four marks or more in a row, such as a rule, count as three."""
    data = text.replace("\n", "\n\n").encode("utf-8", "replace")  # a single line break is a gap, too
    codes = _GAP_RUN.sub(b"w", _LONG_RUN.sub(b"ppp", data.translate(_TABLE, _CONTINUATION)))
    found = [0 if code == "." else codes.count(code.encode()) for code in _CODES]
    found[_LETTER] += codes.count(b"u")
    found[_SWITCH] = len(_SWITCHES.findall(codes))
    if found[_INDIC]:
        for kind, pattern in ((_DEVANAGARI, _IN_DEVANAGARI), (_THAI, _IN_THAI)):
            found[kind] = len(pattern.findall(data))
            found[_INDIC] -= found[kind]
    return tuple(found)
