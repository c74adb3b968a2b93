"""The subject of a call that permission rules match: a command, a path, a URL, or plain text.

Rule: an allow rule must cover all of a subject; a deny or ask rule applies if any reading of the subject matches, and
None says that this cannot be known. Paths are resolved and commands are parsed before they are compared.
"""

import fnmatch
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

from fcshim.tools.commands.plain import read_plain_line
from fcshim.tools.commands.programs import executing_words, is_interpreter, may_run_arguments
from fcshim.tools.commands.reading import read_commands
from fcshim.tools.commands.words import ShellWord, program_name, skip_assignments

_COMMAND_SEPARATOR = re.compile(r"\|\||&&|[;|&\n]")
_SUBSTITUTION = re.compile(r"[`<>\\]|\$[({]")
"""Shell syntax that can run or write something that the words of a command do not show."""
_ANY_FOLDERS = re.compile(r"/\*\*/")
"""`a/**/b` means `a/b` too; `*` alone matches any number of folders."""
_MAX_ARGUMENTS = 100
"""Arguments of an unknown program that are compared with a rule."""
_WILDCARD = re.compile(r"[*?[]")
_QUOTE = re.compile("['\"]")
_PORT = re.compile(r":\d+$")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class Subject(Protocol):
    """The subject of a call."""

    def covered_by(self, pattern: str) -> bool:
        """Return whether an allow rule's pattern covers all of it."""

    def touched_by(self, pattern: str) -> bool | None:
        """Return whether a deny or ask rule's pattern matches any of it; None if that cannot be known."""


class TextSubject:
    """A text that may be a command line of a custom tool: each of its parts counts."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._parts = [part.strip() for part in _COMMAND_SEPARATOR.split(text)]

    def covered_by(self, pattern: str) -> bool:
        """Return whether every part matches, and nothing is hidden in substitutions."""
        hidden = _SUBSTITUTION.search(self._text) is not None
        return not hidden and all(part and fnmatch.fnmatchcase(part, pattern) for part in self._parts)

    def touched_by(self, pattern: str) -> bool:
        """Return whether the text or any of its parts matches."""
        return _matches_any([self._text, *self._parts], pattern)


class PathSubject:
    """A path, from the folder `root`; symbolic links are resolved."""

    def __init__(self, path: str, root: Path) -> None:
        self._root = root
        self._given = path
        self._lexical = _expanded(path, root)
        self._real = _resolved(self._lexical)

    def covered_by(self, pattern: str) -> bool:
        """Return whether the real path matches; a pattern for files in the root, such as `*.md`, means no others."""
        names = _names(self._real, self._root)
        if not pattern.startswith(("/", "~", "..")):
            names = names if self._real.is_relative_to(self._root) else set()
        return any(_matches_any(names, each) for each in _pattern_forms(pattern, self._root))

    def touched_by(self, pattern: str) -> bool:
        """Return whether any name of the path matches, in either case; a folder counts as what is in it.

        A pattern that names a folder means what is in it, too.
        """
        names = {self._given, *_names(self._real, self._root), *_names(self._lexical, self._root)}
        folded = {_folded(name + end) for name in names for end in ("", "/")}
        folders = {_folded(name) for name in _folders(names)}
        patterns = _pattern_forms(pattern, self._root)
        patterns |= {each.replace("[", "[[]") for each in patterns}  # also the folder `[id]` itself
        return any(_matches_any(folded, _folded(each)) or _folded(each).rstrip("/") in folders for each in patterns)


class UrlSubject:
    """A URL; its host is compared as it is connected to."""

    def __init__(self, url: str) -> None:
        self._given = url
        self._normal = _normal_url(url)

    def covered_by(self, pattern: str) -> bool:
        """Return whether scheme, host and the rest match, each by itself: `*.a.com` does not match `evil/.a.com`."""
        if "://" not in pattern:
            return not pattern.strip("*")
        return all(map(fnmatch.fnmatchcase, _url_parts(self._normal), _url_parts(_normal_pattern(pattern))))

    def touched_by(self, pattern: str) -> bool:
        """Return whether any spelling of the URL matches; a pattern for a host or a page means what is below it, too.

        A pattern without a port holds for every port.
        """
        scheme, host, rest = _url_parts(self._normal)
        without_port = f"{scheme}://{_PORT.sub('', host)}{rest}"
        spellings = {self._given, self._normal, without_port}
        spellings |= {unquote(each) for each in spellings}
        patterns = {pattern, _normal_pattern(pattern)}
        below = {f"{each.rstrip('/')}{end}" for each in patterns if not each.endswith("*") for end in ("/*", "[?]*")}
        folded = {each.casefold() + end for each in spellings for end in ("", "/")}
        return any(_matches_any(folded, each.casefold()) for each in patterns | below)


class CommandSubject:
    """A command line of a shell."""

    def __init__(self, line: str) -> None:
        self._line = line
        self._text = TextSubject(line)

    @cached_property
    def _reading(self) -> tuple[list[Sequence[ShellWord]], bool]:
        reading = read_commands(self._line)
        return [skip_assignments(words) for words in reading.commands], reading.complete

    def covered_by(self, pattern: str) -> bool:
        """Return whether the line is plain and each of its commands is covered."""
        commands = read_plain_line(self._line)
        return commands is not None and all(_covers(pattern, words) for words in commands)

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
        commands, complete = self._reading
        if _matches_any([self._line], pattern) or any(_names_command(pattern, words) for words in commands):
            return True
        # Text that merely looks like a command: part of a quoted string, if all of the line could be read.
        looks_alike = self._text.touched_by(pattern)
        if looks_alike and not complete:
            return True
        unknown = not complete or any(_may_become(pattern, words) or _may_run(pattern, words) for words in commands)
        return None if unknown or looks_alike else False


def _covers(pattern: str, words: Sequence[ShellWord]) -> bool:
    """Return whether a pattern allows one plain command, and nothing that the pattern does not spell out."""
    fixed = _fixed_words(pattern)
    program = skip_assignments(words)
    spelled = {*fixed, *(() if _WILDCARD.search(pattern) else pattern.split())}
    if not program or any(word.source not in spelled for word in words[: len(words) - len(program)]):
        return False
    if not program[0].known or program[0].source != program[0].text:
        return False
    if is_interpreter(program_name(program[0].text)) and len(fixed) < 2 and _WILDCARD.search(pattern):
        return False
    if any(word.text not in spelled for word in executing_words(program)):
        return False
    return _matches_words(pattern, words)


def _matches_words(pattern: str, words: Sequence[ShellWord]) -> bool:
    parts = pattern.split()
    if any("/" in part and _WILDCARD.search(part) for part in parts[1:]):
        # `cat src/*` allows one path below src: neither a second one nor a way out.
        return len(parts) == len(words) and all(
            fnmatch.fnmatchcase(word.text, part) and ".." not in word.text.split("/")
            for word, part in zip(words, parts, strict=True)
        )
    return _matches_any(_renderings(words), pattern)


def _renderings(words: Sequence[ShellWord]) -> Iterator[str]:
    yield " ".join(word.source for word in words)
    if not any(" " in word.text for word in words):
        yield " ".join(word.text for word in words)


def _fixed_words(pattern: str) -> list[str]:
    """Return the words of a pattern that stand before its first wildcard, and are complete."""
    found = _WILDCARD.search(pattern)
    if found is None:
        return pattern.split()
    before = pattern[: found.start()]
    return before.split() if before[-1:].isspace() else before.split()[:-1]


def _denied_forms(pattern: str) -> Iterator[str]:
    """Yield what a deny or ask rule means: with further arguments, and the program in any folder."""
    program, blank, rest = pattern.partition(" ")
    names = {program, program_name(program)} if not _WILDCARD.search(program) else {program}
    for name in sorted(filter(None, names)):
        yield name + blank + rest
        if not _WILDCARD.search(pattern):
            yield f"{name}{blank}{rest} *"


def _names_command(pattern: str, words: Sequence[ShellWord]) -> bool:
    return any(_matches_any((text, f"{text} "), pattern) for text in _command_texts(words))


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
    """Return whether an unknown program has a matching command among its arguments: `launcher -x rm y`."""
    if not words or not may_run_arguments(program_name(words[0].text)):
        return False
    texts = [word.text for word in words[1:_MAX_ARGUMENTS]]
    return any(
        _matches_any((name, f"{name} ", " ".join([name, *texts[at + 1 :]])), pattern)
        for at, text in enumerate(texts)
        for name in (program_name(text), text.rpartition("=")[2])
    )


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


def _matches_any(texts: Iterable[str], pattern: str) -> bool:
    return any(fnmatch.fnmatchcase(text, pattern) for text in texts)


def _expanded(path: str, root: Path) -> Path:
    try:
        return root / Path(path).expanduser()
    except RuntimeError:
        return root / path


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return path


def _names(path: Path, root: Path) -> set[str]:
    """Return a path's names: absolute, and from the root if it is inside."""
    absolute = Path(*_without_dots(path.parts)) if path.parts else path
    inside = {absolute.relative_to(root).as_posix()} if absolute.is_relative_to(root) else set()
    return {absolute.as_posix(), *inside}


def _folders(names: Iterable[str]) -> set[str]:
    """Return the folders of paths: `a` and `a/b` of `a/b/c`."""
    return {name[:at] for name in names for at, sign in enumerate(name) if sign == "/" and at}


def _without_dots(parts: Sequence[str]) -> list[str]:
    kept: list[str] = []
    for part in parts:
        if part == ".." and len(kept) > 1:
            kept.pop()
        elif part != "..":
            kept.append(part)
    return kept


def _pattern_forms(pattern: str, root: Path) -> set[str]:
    """Return a pattern as it is written, and with the real path of the folder before its first wildcard."""
    while pattern.startswith("./"):
        pattern = pattern[2:].lstrip("/")
    forms = {pattern, _ANY_FOLDERS.sub("/", pattern)}
    return forms | {_with_real_folder(form, root) for form in forms}


def _with_real_folder(pattern: str, root: Path) -> str:
    found = _WILDCARD.search(pattern)
    end = pattern.rfind("/", 0, found.start()) if found else len(pattern)
    return _resolved(_expanded(pattern[:end], root)).as_posix().rstrip("/") + pattern[end:] if end > 0 else pattern


def _folded(text: str) -> str:
    """Return a name as a file system that ignores case or Unicode's forms sees it."""
    return unicodedata.normalize("NFC", text.casefold())


def _normal_url(url: str) -> str:
    from yarl import URL  # noqa: PLC0415 - of an extra, which every tool that opens URLs needs

    try:
        parsed = URL(url.strip()).with_user(None).with_fragment(None)
        host = (parsed.raw_host or "").rstrip(".")
        return str(parsed.with_host(host) if host else parsed)
    except ValueError:
        return url


def _url_parts(url: str) -> tuple[str, str, str]:
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return scheme.lower(), host.lower(), slash + path


def _normal_pattern(pattern: str) -> str:
    """Return a pattern for URLs with its host as URLs have it: in ASCII, without a user or the scheme's own port."""
    scheme, separator, rest = pattern.partition("://")
    host, slash, path = rest.partition("/")
    host = host.rpartition("@")[2].removesuffix(_DEFAULT_PORTS.get(scheme.lower(), " "))
    if host.startswith("["):
        host = f"[[]{host[1:]}"
    elif host and not _WILDCARD.search(host):
        host = _normal_url(f"http://{host}/").partition("://")[2].rstrip("/")
    return f"{scheme}{separator}{host}{slash}{path}" if separator else pattern
