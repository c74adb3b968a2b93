"""Decides whether a use of a program is known as harmless, by the rows of `harmless.py`.

Rule: a program, subcommand, option or operand that no row names is not harmless. A program that runs the command in its
arguments (`timeout 5 git status`) is as harmless as that command.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise

import msgspec

from fcshim.tools.commands.harmless import GENERAL, INERT, VARIABLES, ProgramUsage
from fcshim.tools.commands.harmless_development import DEVELOPMENT
from fcshim.tools.commands.sed import executing_sed_words
from fcshim.tools.commands.words import ShellWord, assigned_name, is_one_word, may_be_option

_GLOB = re.compile(r"[*?[]")
_SEGMENT = re.compile(r"/|::")
_HIDDEN_GLOB = re.compile(r"(?:^|/)\.[*?[]")
"""A pattern that `..` may match."""
_INTEGER = re.compile(r"-\d.*")
_REPLACED = re.compile(r"-\w*?I(.*)")
_ANY_WORD = ShellWord("*", "*", known=False)


@cache
def _words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _is_inside(text: str) -> bool:
    """Return whether a path leads below the folder that it starts from, as far as its text shows."""
    return (
        not text.startswith(("/", "~", "@", "-"))
        and ".." not in _SEGMENT.split(text)
        and _HIDDEN_GLOB.search(text) is None
    )


OPERANDS: Mapping[str, Callable[[str], bool]] = {
    "any": lambda _: True,
    "none": lambda _: False,
    "inside": _is_inside,
    "name": lambda text: re.fullmatch(r"\w[\w./@^~+-]*", text) is not None and _is_inside(text),
    "script": lambda text: re.fullmatch(r"\w[\w:./-]*", text) is not None and _is_inside(text),
    "variable": lambda text: re.fullmatch(r"[a-z_][a-z0-9_]*", text) is not None,
    "setting": lambda text: assigned_name(text) in _words_of(VARIABLES) and text.startswith(f"{assigned_name(text)}="),
    "date": lambda text: text.startswith("+"),
    "format": lambda text: re.search(r"%[^a-zA-Z%]*n", text) is None,  # bash's printf assigns to the name of a `%n`
    "jq": lambda text: re.search(r"env|import|include", text, re.IGNORECASE) is None,
    "awk": lambda text: re.search(r"system|getline|environ|[|>@]|\\\n", text, re.IGNORECASE) is None,
    "sed": lambda _: True,  # `executing_sed_words` reads them
}
"""What an operand may be, by the name that the rows use."""


def is_harmless(words: Sequence[ShellWord], spelled: int = 0) -> bool:
    """Return whether a command is known as harmless; a rule spells out the first `spelled` of its words.

    The command in a wrapper's arguments must begin with a word that the rule spells out.
    """
    program = skip_harmless_assignments(words, spelled)
    if not program:
        return False
    spelled = max(0, spelled - len(words) + len(program))
    scan = _UsageScan(program, spelled)
    if not scan.run():
        return False
    return scan.inner is None or (spelled > scan.inner and is_harmless(scan.inner_command(), spelled - scan.inner))


def runs_nothing(name: str) -> bool:
    """Return whether a program runs no other one, whatever its arguments are."""
    usage = _programs().get(name)
    return name in _words_of(INERT) or (usage is not None and usage.options == "*")


def is_known(name: str) -> bool:
    """Return whether the table has a row for a program."""
    return name in _programs()


def has_subcommands(name: str) -> bool:
    """Return whether the first argument of a program is a word of its own: `git rm`."""
    usage = _programs().get(name)
    return usage is not None and bool(usage.subcommands)


def inner_command(words: Sequence[ShellWord]) -> Sequence[ShellWord] | None:
    """Return the command that a harmless wrapper runs, which a rule for that command covers; None: no such wrapper."""
    scan = _UsageScan(words, 0)
    return scan.inner_command() if words and scan.run() and scan.inner is not None else None


def skip_harmless_assignments(words: Sequence[ShellWord], spelled: int = 0) -> Sequence[ShellWord]:
    """Return the words from the program on; none if a variable before it is not known as harmless."""
    for at, word in enumerate(words):
        name = assigned_name(word.source)
        if not name:
            return words[at:]
        if at >= spelled and not (word.known and OPERANDS["setting"](word.source)):
            return ()
    return ()


class _UsageScan:
    """Compares the words of a command with the row of its program; `inner`: where a command in its arguments begins."""

    def __init__(self, words: Sequence[ShellWord], spelled: int) -> None:
        self.inner: int | None = None
        self._words = words
        self._spelled = spelled
        self._at = 1
        self._operands = 0
        self._only_operands = False

    def run(self) -> bool:
        """Return whether all words are harmless up to the end, or to the inner command."""
        program = self._words[0]
        usage = _programs().get(program.source) if program.known else None
        while usage is not None and self._at < len(self._words):
            word = self._words[self._at]
            if usage.runs is not None and self._begins_inner(usage, word):
                return True
            if word.known and word.text in usage.subcommands and not self._only_operands:
                usage = usage.subcommands[word.text]
                self._at += 1
                self._operands = 0
            elif not self._accept(usage, word):
                return False
        if usage is None or usage.runs is not None or self._operands < usage.least:
            return False
        if usage.operands == "sed":
            return not any(word not in self._words[: self._spelled] for word in executing_sed_words(self._words[1:]))
        return True

    def inner_command(self) -> Sequence[ShellWord]:
        """Return the words of the inner command, those that its wrapper adds or replaces included."""
        assert self.inner is not None
        inner, usage = self._words[self.inner :], _programs()[self._words[0].text]
        if not usage.appends:
            return inner
        replaced = [
            found[1] or following.text
            for word, following in pairwise(self._words[: self.inner + 1])
            if (found := _REPLACED.fullmatch(word.text))
        ]
        return [
            *(_ANY_WORD if any(sign in word.text for sign in replaced) else word for word in inner),
            _ANY_WORD,
        ]

    def _begins_inner(self, usage: ProgramUsage, word: ShellWord) -> bool:
        """Return whether the inner command begins with a word. A rule has to name some wrappers."""
        if self._operands < (usage.runs or 0) or self._may_be_option(word):
            return False
        if usage.assigns and assigned_name(word.source):
            return False
        if usage.named and self._spelled < self._at:
            return False
        self.inner = self._at
        return True

    def _accept(self, usage: ProgramUsage, word: ShellWord) -> bool:
        """Go on behind one word and its values; return whether they are harmless."""
        given = self._at < self._spelled
        self._at += 1
        if word.text == "--" and word.known and not self._only_operands and not usage.single_dash:
            self._only_operands = True
            return True
        if self._may_be_option(word):
            return self._accept_option(usage, word, given=given)
        if usage.runs is not None and usage.assigns and assigned_name(word.source):
            return given or (word.known and OPERANDS["setting"](word.source))
        self._operands += 1
        if given and usage.subcommands:  # no row says what the arguments of this subcommand do
            return len(self._words) <= self._spelled
        accepted = OPERANDS[usage.operands if usage.runs is None else "name"](word.text)
        return given or (accepted and self._operands <= usage.most)

    def _may_be_option(self, word: ShellWord) -> bool:
        """Return whether a word is an option, or the shell may replace it by one: `*` by the name of a file."""
        return not self._only_operands and may_be_option(word)

    def _accept_option(self, usage: ProgramUsage, word: ShellWord, *, given: bool) -> bool:
        count = self._option_values(usage, word)
        if count is None:
            # The rule spells an option out; the next word may be its value, which then stands in the rule too.
            if f"{word.text}!" in usage.options.split():
                self._at += 1
                return given and self._at <= self._spelled
            return given and (self._at < self._spelled or "=" in word.text)
        values = self._words[self._at : self._at + count]
        self._at += count
        return len(values) == count and all(
            _INTEGER.fullmatch(value.text) or not self._may_be_option(value) or (is_one_word(value) and not value.known)
            for value in values
        )

    def _option_values(self, usage: ProgramUsage, word: ShellWord) -> int | None:
        """Return how many of the next words are values of an option; None if it is not known as harmless."""
        options = _option_table(usage.options)
        if "*" in options:
            return 0
        if not word.known and not (word.text.startswith("--") and "=" in _GLOB.split(word.text)[0]):
            return None
        if usage.single_dash:
            if _INTEGER.fullmatch(word.text) and "-#" in options:
                return 0
            return _long_values(options, f"-{word.text.removeprefix('-').removeprefix('-')}")
        return _long_values(options, word.text) if word.text.startswith("--") else _short_values(options, word.text)


@cache
def _programs() -> Mapping[str, ProgramUsage]:
    return _by_name({**GENERAL, **DEVELOPMENT})


def _by_name(rows: Mapping[str, ProgramUsage]) -> dict[str, ProgramUsage]:
    """Return rows by each word of their keys."""
    return {
        name: msgspec.structs.replace(row, subcommands=_by_name(row.subcommands)) if row.subcommands else row
        for names, row in rows.items()
        for name in names.split()
    }


@cache
def _option_table(options: str) -> dict[str, str]:
    """Return the options of a row, each with the sign of what follows it."""
    return {(name := token.rstrip("=?")): token[len(name) :] for token in options.split() if not token.endswith("!")}


def _long_values(options: Mapping[str, str], text: str) -> int | None:
    if text in options:
        return options[text].count("=")
    name, attached, _ = text.partition("=")
    return 0 if attached and options.get(name) in ("=", "?") else None


def _short_values(options: Mapping[str, str], text: str) -> int | None:
    """Return the number for a cluster such as `-rn`, of which the last letter may have a value."""
    if text in options and (len(text) == 2 or not options[text]):
        return options[text].count("=")
    if text[1:].isdigit() and "-#" in options:
        return 0
    for at, letter in enumerate(text[1:], 2):
        kind = options.get(f"-{letter}")
        if kind is None:
            return None
        if kind:
            return 0 if text[at:] or kind == "?" else 1
    return 0
