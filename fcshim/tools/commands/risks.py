"""Finds risks in a shell command, as far as its words show them.

Rule: this is not a security boundary, since a command can hide what it does; only the permission to run it protects.
Destructive commands without a possible purpose are refused; risky ones get warnings, which the user reads first.
"""

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from fcshim.tools.commands.line_commands import read_commands
from fcshim.tools.commands.programs import INTERPRETERS, SHELLS, without_version

_Call: TypeAlias = tuple[str, Sequence[str]]
"""A program's name and its arguments."""

_COMMAND_SEPARATOR = re.compile(r"\|\||&&|[;\n(){}]|(?<!>)[|&](?!>)")
_WRAPPER_PROGRAMS = frozenset({"sudo", "doas", "command", "exec", "nohup", "time", "env", "nice", "builtin"})
_FORBIDDEN_PROGRAMS = frozenset(
    {"diskpart", "format", "shutdown", "reboot", "halt", "poweroff", "fdisk", "parted", "wipefs"}
)
_PROTECTED_PATH = re.compile(
    r"(?:/|~|\$HOME|\$\{HOME\})(?:/?\*?|/\.)|/(?:bin|boot|dev|etc|home|lib|lib64|root|sbin|usr|var)(?:/\*?)?"
)
_DISK_WRITE = re.compile(r"(?:of=|>\s*)/dev/(?:sd|hd|nvme|vd|mmcblk|disk)")
_FORK_BOMB = re.compile(r":\s*\(\s*\)\s*\{\s*:\s*\|\s*:\s*&\s*\}\s*;\s*:")
_REFUSED_TEXTS = ((_FORK_BOMB, "it would never stop starting processes"), (_DISK_WRITE, "it writes over a disk"))
_ELEVATORS = frozenset({"sudo", "doas", "su", "pkexec"})
_DELETERS = frozenset({"rm", "rmdir", "unlink", "shred", "srm", "truncate", "trash"})
_DELETING_ARGUMENTS = {
    "find": frozenset({"-delete"}),
    "git": frozenset({"clean", "rm", "restore", "checkout", "--hard", "--force", "-f", "--mirror", "drop"}),
    "rsync": frozenset({"--delete", "--remove-source-files"}),
    "docker": frozenset({"rm", "rmi", "prune"}),
    "kubectl": frozenset({"delete"}),
}
"""Arguments by which a program deletes or discards something."""
_NETWORK_PROGRAMS = frozenset(
    {"curl", "wget", "aria2c", "nc", "ncat", "netcat", "socat", "ssh", "scp", "sftp", "rsync", "ftp"}
)
_NETWORK_ARGUMENTS = {"git": frozenset({"push", "fetch", "pull", "clone", "ls-remote"})}
_PACKAGE_RUNNERS = frozenset({"npx", "bunx", "pnpx", "uvx", "pipx"})
_PACKAGE_ARGUMENTS = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), frozenset({"install", "i", "ci", "add", "dlx", "exec", "x"})),
    **dict.fromkeys(("pip", "pip3", "uv", "gem", "cargo", "go", "brew"), frozenset({"install", "tool", "sync"})),
    **dict.fromkeys(("apt", "apt-get", "dnf", "yum", "apk", "pacman"), frozenset({"install", "add", "-S"})),
}
"""Arguments by which a program loads packages, whose code may run at once."""
_PERMISSION_PROGRAMS = frozenset({"chmod", "chown", "chgrp", "setfacl"})
_WRITERS = frozenset({"cp", "mv", "tee", "ln", "install", "dd", "touch", "mkdir", "rsync", "scp", "truncate"})
_REDIRECTION = re.compile(r"(?:\d*|&)(?:>[>|&]?|<>)")
_SAFE_DEVICES = frozenset(
    {"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/stdin", "/dev/stdout", "/dev/stderr"}
)
_MAX_COMMAND = 20_000
"""Characters of a command; longer ones are refused: people do not write them, and the rest could hide anything."""


class CommandRisks(msgspec.Struct, frozen=True):
    """`refusal`: why the command must not run, else empty. `warnings`: what it does, each as a verb phrase."""

    refusal: str = ""
    warnings: tuple[str, ...] = ()


def inspect_command(command: str, root: Path) -> CommandRisks:
    """Return the risks of a command that would run in the folder `root`."""
    if len(command) > _MAX_COMMAND:
        return CommandRisks(refusal=f"it is longer than {_MAX_COMMAND} characters; write a script and run that")
    outer = [words for part in _COMMAND_SEPARATOR.split(command) if (words := _split_words(part))]
    line = read_commands(command)
    commands = [*outer, *([word.text for word in words] for words in line.commands if words)]
    refusals = [*map(_refuse_call, commands), *(why for text, why in _REFUSED_TEXTS if text.search(command))]
    warnings = [*_warnings(commands), *_outside_paths(commands, root)]
    if not line.complete:
        warnings.append("may run more than can be seen here: it computes a command, or runs code")
    return CommandRisks(next(filter(None, refusals), ""), tuple(dict.fromkeys(warnings)))


def _split_words(part: str) -> list[str]:
    try:
        words = shlex.split(part, comments=True)
    except ValueError:
        words = part.split()
    return words


def _program(words: Sequence[str]) -> _Call:
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


def _warnings(commands: Sequence[Sequence[str]]) -> Iterator[str]:
    calls: list[_Call] = []
    for words in commands:
        name, arguments = _program(words)
        if without_version(name) == "python" and list(arguments[:1]) == ["-m"] and len(arguments) > 1:
            name, arguments = arguments[1], arguments[2:]  # the module runs as a program
        calls.append((name, arguments))
    names = {name for name, _ in calls}
    runs_code = any(without_version(name) in SHELLS or without_version(name) in INTERPRETERS for name in names)
    uses_network = bool(names & _NETWORK_PROGRAMS) or _has_argument(calls, _NETWORK_ARGUMENTS)
    if names & _DELETERS or _has_argument(calls, _DELETING_ARGUMENTS):
        yield "deletes or discards something"
    if any(word in _ELEVATORS for words in commands for word in words[:1]):
        yield "runs with the rights of another user"
    if (uses_network and runs_code) or names & _PACKAGE_RUNNERS or _has_argument(calls, _PACKAGE_ARGUMENTS):
        yield "runs what it loads from the network"
    elif uses_network:
        yield "uses the network"
    if names & _PERMISSION_PROGRAMS:
        yield "changes permissions"


def _has_argument(calls: Sequence[_Call], table: Mapping[str, Collection[str]]) -> bool:
    return any(argument in table.get(name, ()) for name, arguments in calls for argument in arguments)


def _outside_paths(commands: Sequence[Sequence[str]], root: Path) -> Iterator[str]:
    """Yield a warning for each path outside the workspace; the programs themselves may be anywhere."""
    for words in commands:
        writes, redirected = _program(words)[0] in _WRITERS, False
        for word in words[1:]:
            found = _REDIRECTION.match(word)
            path = word[found.end() :] if found else word
            path = path.partition("=")[2] if path.startswith("-") or (writes and "=" in path) else path
            if _leads_out(path, root):
                does = "writes" if writes or redirected or found else "names a path"
                yield f"{does} outside the workspace: {path[:100]}"
            redirected = found is not None and not path


def _leads_out(path: str, root: Path) -> bool:
    if not (path.startswith(("/", "~", "$HOME", "${HOME}")) or ".." in path.split("/")):
        return False
    home = re.sub(r"^\$(?:HOME\b|\{HOME\})", "~", path)
    try:
        target = (root / Path(home).expanduser()).resolve()
    except (OSError, RuntimeError, ValueError):
        return True
    return not target.is_relative_to(root) and str(target) not in _SAFE_DEVICES
