"""Finds risks in a shell command, as far as its words show them.

Rule: a guard rail, not a security boundary: a command can hide what it does, so the protection is the permission to run
it. Destructive commands that nobody can intend are refused, risky ones get a warning.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from fcshim.tools.commands.reading import read_commands

_COMMAND_SEPARATOR = re.compile(r"\|\||&&|[;|&\n(){}]")
_WRAPPER_PROGRAMS = frozenset({"sudo", "doas", "command", "exec", "nohup", "time", "env", "nice", "builtin"})
_FORBIDDEN_PROGRAMS = frozenset(
    {"diskpart", "format", "shutdown", "reboot", "halt", "poweroff", "fdisk", "parted", "wipefs"}
)
_PROTECTED_PATH = re.compile(
    r"(?:/|~|\$HOME|\$\{HOME\})(?:/?\*?|/\.)|/(?:bin|boot|dev|etc|home|lib|lib64|root|sbin|usr|var)(?:/\*?)?"
)
_DISK_WRITE = re.compile(r"(?:of=|>\s*)/dev/(?:sd|hd|nvme|vd|mmcblk|disk)")
_FORK_BOMB = re.compile(r":\s*\(\s*\)\s*\{\s*:\s*\|\s*:\s*&\s*\}\s*;\s*:")
_INTERPRETERS = frozenset({"sh", "bash", "zsh", "dash", "python", "python3", "perl", "ruby", "node"})
_DOWNLOADERS = frozenset({"curl", "wget"})
_PERMISSION_PROGRAMS = frozenset({"chmod", "chown", "chgrp", "setfacl"})
_SAFE_DEVICES = frozenset(
    {"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/stdin", "/dev/stdout", "/dev/stderr"}
)
_MAX_COMMAND = 20_000
"""Characters of a command; longer ones are refused: people do not write them, and the rest could hide anything."""


class CommandRisks(msgspec.Struct, frozen=True):
    """`refusal`: why the command must not run, else empty. `warnings`: risks to report with its result."""

    refusal: str = ""
    warnings: tuple[str, ...] = ()


def inspect_command(command: str, root: Path) -> CommandRisks:
    """Return the risks of a command that would run in the folder `root`."""
    if len(command) > _MAX_COMMAND:
        return CommandRisks(refusal=f"it is longer than {_MAX_COMMAND} characters; write a script and run that")
    calls = [words for part in _COMMAND_SEPARATOR.split(command) if (words := _split_words(part))]
    inner = [[word.text for word in words] for words in read_commands(command).commands]
    refused = next(filter(None, (*map(_refuse_call, (*calls, *inner)), _refuse_command(command))), "")
    return CommandRisks(refused, tuple(dict.fromkeys((*_warnings(calls, command), *_outside_paths(calls, root)))))


def _split_words(part: str) -> list[str]:
    try:
        words = shlex.split(part, comments=True)
    except ValueError:
        words = part.split()
    return words


def _program(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the program, after wrappers such as `sudo` and assignments, and its arguments."""
    for at, word in enumerate(words):
        name = word.rpartition("/")[2]
        if name not in _WRAPPER_PROGRAMS and "=" not in word and not word.startswith("-"):
            return name, words[at + 1 :]
    return "", ()


def _refuse_call(words: Sequence[str]) -> str:
    name, arguments = _program(words)
    if name in _FORBIDDEN_PROGRAMS or name == "mkfs" or name.startswith("mkfs."):
        return f"{name} destroys more than a workspace"
    options = "".join(each for each in arguments if each.startswith("-"))
    recursive = "r" in options.lower() or "--recursive" in arguments
    if (
        name in ("rm", *_PERMISSION_PROGRAMS)
        and recursive
        and any(_PROTECTED_PATH.fullmatch(each) for each in arguments)
    ):
        return f"{name} of the whole system or home"
    return ""


def _refuse_command(command: str) -> str:
    if _FORK_BOMB.search(command):
        return "it would never stop starting processes"
    return "it writes over a disk" if _DISK_WRITE.search(command) else ""


def _warnings(calls: Sequence[Sequence[str]], command: str) -> Iterator[str]:
    names = [_program(words)[0] for words in calls]
    if any(words[0] in ("sudo", "doas", "su") for words in calls):
        yield "runs with the rights of another user"
    if "|" in command and any(name in _DOWNLOADERS for name in names) and any(name in _INTERPRETERS for name in names):
        yield "runs what it loads from the network"
    if any(name in _PERMISSION_PROGRAMS for name in names):
        yield "changes permissions"


def _outside_paths(calls: Sequence[Sequence[str]], root: Path) -> Iterator[str]:
    """Yield a warning for each path outside the workspace; the programs themselves may be anywhere."""
    for words in calls:
        for word in words[1:]:
            path = word.partition("=")[2] if word.startswith("-") else word
            if path.startswith(("/", "~")) or ".." in path.split("/"):
                yield from _outside_path(path, root)


def _outside_path(path: str, root: Path) -> Iterator[str]:
    try:
        target = (root / Path(path).expanduser()).resolve()
    except (OSError, RuntimeError, ValueError):
        return
    if not target.is_relative_to(root) and str(target) not in _SAFE_DEVICES:
        yield f"names a path outside the workspace: {path[:100]}"
