"""The subject of a call that permission rules match: a path, a URL, or plain text (`command_subject.py`: a command).

Rule: an allow rule must cover all of a subject; a deny or ask rule applies if the subject matches in any way to
understand it, and None says that this cannot be known. Paths are resolved before they are compared.
"""

import fnmatch
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

_COMMAND_SEPARATOR = re.compile(r"\|\||&&|[;|&\n]")
_SUBSTITUTION = re.compile(r"[`<>\\]|\$[({]")
"""Shell syntax that can run or write something that the words of a command do not show."""
_ANY_FOLDERS = re.compile(r"/\*\*/")
"""`a/**/b` means `a/b` too; `*` alone matches any number of folders."""
_WILDCARD = re.compile(r"[*?[]")
_PORT = re.compile(r":\d+$")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class Subject(Protocol):
    """The subject of a call."""

    def covered_by(self, *patterns: str) -> bool:
        """Return whether the patterns of allow rules cover all of it."""

    def touched_by(self, pattern: str) -> bool | None:
        """Return whether a deny or ask rule's pattern matches any of it; None if that cannot be known."""


def matches_any(texts: Iterable[str], pattern: str) -> bool:
    """Return whether a pattern matches one of the texts."""
    return any(fnmatch.fnmatchcase(text, pattern) for text in texts)


class TextSubject:
    """A text that may be a command line of a custom tool: each of its parts counts."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._parts = [part.strip() for part in _COMMAND_SEPARATOR.split(text)]

    def covered_by(self, *patterns: str) -> bool:
        """Return whether every part matches one of the patterns, and nothing is hidden in substitutions."""
        if _SUBSTITUTION.search(self._text):
            return False
        return all(part and any(fnmatch.fnmatchcase(part, each) for each in patterns) for part in self._parts)

    def touched_by(self, pattern: str) -> bool:
        """Return whether the text or any of its parts matches."""
        return matches_any([self._text, *self._parts], pattern)


class PathSubject:
    """A path, from the folder `root`; symbolic links are resolved."""

    def __init__(self, path: str, root: Path) -> None:
        self._root = root
        self._given = path
        self._lexical = _expanded(path, root)
        self._real = _resolved(self._lexical)

    def covered_by(self, *patterns: str) -> bool:
        """Return whether the real path matches; a pattern for files in the root, such as `*.md`, means no others."""
        is_inside = self._real.is_relative_to(self._root)
        names = _names(self._real, self._root)
        possible = [each for each in patterns if is_inside or each.startswith(("/", "~", ".."))]
        return any(matches_any(names, form) for each in possible for form in _pattern_forms(each, self._root))

    def touched_by(self, pattern: str) -> bool:
        """Return whether any name of the path matches, in either case; a folder counts as what is in it.

        A pattern that names a folder means what is in it, too.
        """
        names = {self._given, *_names(self._real, self._root), *_names(self._lexical, self._root)}
        folded = {_folded(name + end) for name in names for end in ("", "/")}
        # `a` and `a/b` are the folders of `a/b/c`.
        folders = {_folded(name[:at]) for name in names for at, sign in enumerate(name) if sign == "/" and at}
        patterns = _pattern_forms(pattern, self._root)
        patterns |= {each.replace("[", "[[]") for each in patterns}  # also the folder `[id]` itself
        return any(matches_any(folded, _folded(each)) or _folded(each).rstrip("/") in folders for each in patterns)


class UrlSubject:
    """A URL; its host is compared as it is connected to."""

    def __init__(self, url: str) -> None:
        self._given = url
        self._normal = _normal_url(url)

    def covered_by(self, *patterns: str) -> bool:
        """Return whether scheme, host and the rest match, each by itself: `*.a.com` does not match `evil/.a.com`."""
        parts = _url_parts(self._normal)
        return any(
            all(map(fnmatch.fnmatchcase, parts, _url_parts(_normal_pattern(each))))
            if "://" in each
            else not each.strip("*")
            for each in patterns
        )

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
        return any(matches_any(folded, each.casefold()) for each in patterns | below)


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
    for form in tuple(forms):
        found = _WILDCARD.search(form)
        end = form.rfind("/", 0, found.start()) if found else len(form)
        if end > 0:
            forms.add(_resolved(_expanded(form[:end], root)).as_posix().rstrip("/") + form[end:])
    return forms


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
