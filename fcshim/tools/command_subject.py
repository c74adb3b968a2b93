"""A command line as the subject of permission rules.

Rule: an allow rule covers what the table of harmless uses names, unless it ends with `**` or has no wildcard; a deny or
ask rule applies to every command that the line runs, and what cannot be read for certain is asked about.
"""

import fnmatch
import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from fcshim.tools.commands.line_commands import read_commands
from fcshim.tools.commands.plain import read_plain_line
from fcshim.tools.commands.programs import is_interpreter
from fcshim.tools.commands.usage import (
    has_subcommands,
    inner_command,
    is_harmless,
    is_known,
    runs_nothing,
    skip_harmless_assignments,
)
from fcshim.tools.commands.words import ShellWord, program_name, skip_assignments
from fcshim.tools.subjects import TextSubject, matches_any

_COMMAND_SEPARATOR = re.compile(r"\|\||&&|[;|&\n]")
_MAX_ARGUMENTS = 100
"""Arguments of an unknown program that are compared with a rule."""
_MAX_WRAPPERS = 8
"""Wrappers and assignments before a command: `timeout 5 nice git status` has two."""
_WILDCARD = re.compile(r"[*?[]")
_QUOTE = re.compile("['\"]")


class CommandSubject:
    """A command line of a shell."""

    def __init__(self, line: str) -> None:
        self._line = line
        self._text = TextSubject(line)

    @cached_property
    def _commands(self) -> tuple[list[Sequence[ShellWord]], bool]:
        line = read_commands(self._line)
        return [skip_assignments(words) for words in line.commands], line.complete

    def covered_by(self, *patterns: str) -> bool:
        """Return whether the line is plain, and each of its commands is covered by one of the patterns."""
        commands = read_plain_line(self._line)
        return commands is not None and all(any(_covers(each, words) for each in patterns) for words in commands)

    def touched_by(self, pattern: str) -> bool | None:
        """Return whether any command that the line runs matches.

        A pattern of several commands (`curl * | sh`) means lines with all of them.
        """
        parts = [part for each in _COMMAND_SEPARATOR.split(pattern) if (part := each.strip())]
        if len(parts) > 1 and not _QUOTE.search(pattern):
            found = {self.touched_by(part) for part in parts}
            return False if False in found else None if None in found else True
        answers = {
            self._touched_by_form(form) for each in (pattern, _QUOTE.sub("", pattern)) for form in _denied_forms(each)
        }
        return True if True in answers else None if None in answers else False

    def _touched_by_form(self, pattern: str) -> bool | None:
        commands, complete = self._commands
        texts = (text for words in commands for text in _command_texts(words))
        if matches_any([self._line], pattern) or any(matches_any((text, f"{text} "), pattern) for text in texts):
            return True
        # Text that merely looks like a command: part of a quoted string, if all of the line could be read.
        looks_alike = self._text.touched_by(pattern)
        if looks_alike and not complete:
            return True
        unknown = not complete or any(_may_become(pattern, words) or _may_run(pattern, words) for words in commands)
        return None if unknown or looks_alike else False


def is_unlimited(pattern: str) -> bool:
    """Return whether a pattern allows all that its program can do: `git **`."""
    return pattern == "**" or pattern.endswith(" **")


def unlimited_pattern(pattern: str) -> str:
    """Return the pattern that allows all that the program of another one can do: `git **` for `git *`."""
    return f"{_literal_words(pattern)} **".lstrip()


def _literal_words(pattern: str) -> str:
    """Return the words of a pattern before its first wildcard; the start of a path is none."""
    found = _WILDCARD.search(pattern)
    before, blank, last = pattern[: found.start() if found else None].rpartition(" ")
    return f"{before}{blank}{last}".strip() if last.isalnum() else before


def pattern_note(pattern: str, restoring: str) -> str:
    """Return what an allow rule's pattern covers, where it is not what the pattern seems to say; else nothing."""
    found = _WILDCARD.search(pattern)
    if found is None or pattern.endswith((":*", ":**")):
        return ""  # a second pattern, with a blank for the colon, has the note
    literal = _literal_words(pattern)
    name, program = literal.partition(" ")[0], literal or "every program"
    if is_unlimited(pattern):
        return f"allows all that {program} can do, such as running other programs and writing files."
    if runs_nothing(name):
        return ""
    any_program = " " not in pattern[: found.start()]
    covered = "its harmless uses" if any_program or is_known(name) else "nothing, as its options are not known"
    return f"covers {covered}, and asks about every other line; {restoring} allows all that {program} can do."


def _covers(pattern: str, words: Sequence[ShellWord]) -> bool:
    """Return whether a pattern allows one plain command, by itself or behind harmless assignments and wrappers."""
    for _ in range(_MAX_WRAPPERS):
        if _covers_all(pattern, words):
            return True
        program = skip_harmless_assignments(words)
        inner = program if len(program) < len(words) else inner_command(words)
        if not inner:
            return False
        words = inner
    return False


def _covers_all(pattern: str, words: Sequence[ShellWord]) -> bool:
    program = skip_assignments(words)
    if not program or not program[0].known or program[0].source != program[0].text:
        return False
    if not _matches_words(pattern, words):
        return False
    return not _WILDCARD.search(pattern) or is_unlimited(pattern) or is_harmless(words, _spelled(pattern, words))


def _spelled(pattern: str, words: Sequence[ShellWord]) -> int:
    """Return how many words stand in a pattern as they are written, before its first wildcard."""
    found = _WILDCARD.search(pattern)
    literal = pattern[: found.start()] if found else pattern
    count, text = 0, ""
    for word in words:
        text += f"{word.source} "
        if not literal.startswith(text):
            break
        count += 1
    return count


def _matches_words(pattern: str, words: Sequence[ShellWord]) -> bool:
    parts = pattern.split()
    if any("/" in part and _WILDCARD.search(part) for part in parts[1:]):
        # `cat src/*` allows one path below src: neither a second one nor a way out.
        return len(parts) == len(words) and all(
            fnmatch.fnmatchcase(word.text, part) and ".." not in word.text.split("/")
            for word, part in zip(words, parts, strict=True)
        )
    texts = [" ".join(word.source for word in words)]
    if not any(" " in word.text for word in words):
        texts.append(" ".join(word.text for word in words))
    return matches_any((text + end for text in texts for end in ("", " ")), pattern)


def _denied_forms(pattern: str) -> Iterator[str]:
    """Yield what a deny or ask rule means: with further arguments, and the program in any folder."""
    program, blank, rest = pattern.partition(" ")
    names = {program, program_name(program)} if not _WILDCARD.search(program) else {program}
    for name in sorted(filter(None, names)):
        yield name + blank + rest
        if not _WILDCARD.search(pattern):
            yield f"{name}{blank}{rest} *"


def _command_texts(words: Sequence[ShellWord]) -> Iterator[str]:
    """Yield the spellings of a command: with and without the program's folder, and leading options."""
    if not words:
        return
    texts = [word.text for word in words]
    yield " ".join(texts)
    name = program_name(texts[0])
    for at in _after_options(texts):
        yield " ".join([name, *texts[at:]])
        if name != name.lower():  # a file system that ignores case finds `rm` by `RM`
            yield " ".join([name.lower(), *texts[at:]])


def _after_options(texts: Sequence[str]) -> Iterator[int]:
    """Yield where the arguments may begin, after leading options and their values: `git -C x push`."""
    yield 1
    at = 1
    while at < len(texts) and texts[at].startswith("-"):
        at += 1
        yield at
        if at < len(texts) and not texts[at].startswith("-"):
            at += 1
            yield at


def _may_run(pattern: str, words: Sequence[ShellWord]) -> bool:
    """Return whether a program may run a matching command of its arguments: `launcher -x rm y`, `git -c a=rm x`."""
    name = program_name(words[0].text) if words else ""
    texts = [word.text for word in words[1:_MAX_ARGUMENTS]]
    if any(text.startswith("/") and matches_any((f"{program_name(text)} ",), pattern) for text in texts):
        return True  # the program gets another name: `ln -s /bin/rm x`
    if not words or is_interpreter(name) or runs_nothing(name) or is_harmless(words):
        return False
    subcommands = has_subcommands(name)
    if subcommands and program_name(pattern.partition(" ")[0]) == name and _configures(texts):
        return True
    return any(
        matches_any((candidate, f"{candidate} ", " ".join([candidate, *texts[at + 1 :]])), pattern)
        for at, text in enumerate(texts)
        if at or not subcommands
        for candidate in (program_name(text), text.rpartition("=")[2].removeprefix("!"), text[2:])
        if candidate != text[2:] or text.startswith("-")
    )


def _configures(texts: Sequence[str]) -> bool:
    """Return whether an option before the subcommand, or its value, sets something: `-c alias.x=!rm`."""
    for at, text in enumerate(texts):
        if not text.startswith("-") and not (at and texts[at - 1].startswith("-")):
            return False
        if "=" in text:
            return True
    return False


def _may_become(pattern: str, words: Sequence[ShellWord]) -> bool:
    """Return whether a command with expansions may match once the shell has expanded them."""
    known = next((at for at, word in enumerate(words) if not word.known), len(words))
    if known == len(words):
        return False
    literal = pattern[: found.start()] if (found := _WILDCARD.search(pattern)) else pattern
    for text in _command_texts(words[:known]):
        if literal.startswith(f"{text} ") or f"{text} ".startswith(literal):
            return True
    return False
