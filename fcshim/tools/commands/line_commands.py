"""Reads every command that a command line runs: in lists, pipes, substitutions, here-documents, arguments of shells.

Rule: `complete` is false where something may run that is not in `commands`: text that cannot be parsed, a program whose
name is computed, code in another language, a script from a file or a pipe. Needs the extra `fcshim[tools]`; without it
only plain lines are read.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from fcshim.tools.commands.certainty import EVALUATING_BUILTINS, is_assignment_certain, is_builtin_certain
from fcshim.tools.commands.plain import read_plain_line
from fcshim.tools.commands.programs import (
    INTERPRETERS,
    SCRIPT_LANGUAGES,
    SHELLS,
    WRAPPERS,
    is_loader,
    is_risky_variable,
    without_version,
)
from fcshim.tools.commands.sed import executing_sed_words
from fcshim.tools.commands.syntax import walk_syntax
from fcshim.tools.commands.usage import is_harmless, runs_nothing
from fcshim.tools.commands.words import ShellWord, assigned_name, may_be_option, program_name, skip_assignments

MAX_LENGTH = 4_000
"""Characters that are parsed, over all scripts inside scripts; the parser is quadratic in some of them."""
MAX_PIPES = 100
"""Pipe signs that are parsed: 4,000 characters of `a|` hold the interpreter for 0.2 s."""
MAX_COMMANDS = 300
"""Commands of one line, those inside others included."""
MAX_WORDS = 3_000
"""Words of all of them: each `sudo -u` in a row doubles the ways to understand what follows."""
MAX_LEADING = 50
"""Options and values before the arguments of one command; all their combinations are compared with a rule."""
MAX_DEPTH = 6
"""Scripts in scripts (`bash -c "sh -c '...'"`)."""

_SCRIPT_OPTION = re.compile(r"[-+][A-Za-z]*c[A-Za-z]*")
_SHELL_FILE_OPTION = re.compile("--(?:rcfile|init-file)")
_CODE_MODULES = frozenset({"timeit", "code", "pdb", "asyncio", "IPython"})
"""Modules of Python that run code in their arguments or input."""
_INLINE_CODE = re.compile(r"-{1,2}(?:[A-Za-z]*[ceErpPx]|eval|exec|print|run)?(?:=.*)?")
_HARMLESS = frozenset({"--version", "--help", "-V"})
_AWK_EXECUTES = re.compile(r"system|[|]|getline|@load|^-[fEl]")
_SEDS = frozenset({"sed", "gsed"})
_BLANK = re.compile(r"\s")
_QUERIES = frozenset({"-v", "-V"})
"""Options of `command` with which it only names a program."""
_MAX_CLUSTER = 8
"""Characters of an option in which the letters before its value may stand."""
_RESERVED = frozenset({"!", "{", "(", "time", "coproc", "then", "do", "else", "elif", "if", "while", "until"})
"""Words of the shell's syntax that a command follows."""
_COMMAND_OPTIONS = {
    "find": frozenset({"-exec", "-execdir", "-ok", "-okdir"}),
    **dict.fromkeys(("fd", "fdfind"), frozenset({"-x", "-X", "--exec", "--exec-batch"})),
}
"""Options that a command follows."""
_SCRIPT = re.compile(r"""[\s'"`$;&|()<>]""")
"""A sign that no name of a program or file needs: the text may be a script."""
_STANDARD_INPUT = frozenset({"-", "/dev/stdin"})
"""Files that another command of the line may write: `echo 'x:; rm y' | make -f -`."""
_FROM_INPUT = ShellWord("$", "$", known=False)
"""The arguments that `xargs` reads."""
_READS_ARGUMENTS = frozenset({"xargs", "parallel"})


class CommandReading(msgspec.Struct, frozen=True):
    """The commands that a line runs; not `complete`: perhaps others too."""

    commands: tuple[tuple[ShellWord, ...], ...]
    complete: bool


def read_commands(line: str) -> CommandReading:
    """Read a command line."""
    reader = _CommandReader()
    reader.read_script(line, 0)
    return CommandReading(tuple(reader.commands), reader.complete)


class _CommandReader:
    """Collects the commands of one line, and of the scripts in it."""

    def __init__(self) -> None:
        self.commands: list[tuple[ShellWord, ...]] = []
        self.complete = True
        self._left = MAX_LENGTH
        self._words_left = MAX_WORDS

    def read_script(self, script: str, depth: int) -> None:
        """Read a script and what its commands run."""
        self._left -= len(script)
        self.complete &= "\\`" not in script  # backquotes in backquotes, which the parser reads as text
        if self._left < 0 or depth > MAX_DEPTH or script.count("|") > MAX_PIPES:
            self.complete = False
            return
        first = at = len(self.commands)
        texts = self._read_syntax(script, depth)
        while at < len(self.commands):  # a command that runs another one adds it at the end
            self._read_command(self.commands[at], depth)
            at += 1
        self._read_shell_input(self.commands[first:], texts, depth)

    def _read_syntax(self, script: str, depth: int) -> list[str]:
        """Add the commands that the syntax shows; return the here-documents and here-strings."""
        walk = walk_syntax(script)
        if walk is None:
            plain = read_plain_line(script)
            for plain_words in plain or ():
                self._add(plain_words)
            self.complete &= plain is not None
            return []
        self.complete &= not walk.has_error
        for words in walk.commands:
            self._add(words)
        self.complete &= not walk.computed
        self._read_texts(walk.scripts, depth)
        return walk.texts

    def _add(self, words: Sequence[ShellWord]) -> None:
        self._words_left -= len(words)
        options = sum(word.text.startswith("-") for word in words)
        if self._words_left < 0 or len(self.commands) >= MAX_COMMANDS or options > MAX_LEADING:
            self.complete = False
        else:
            self.commands.append(tuple(words))

    def _read_command(self, words: tuple[ShellWord, ...], depth: int) -> None:
        words = self._program_words(words)
        if not words:
            return
        name = without_version(program_name(words[0].text))
        if not words[0].known:
            self.complete = False
        elif name in SHELLS:
            self._read_shell(words, depth)
        elif name == "eval":
            self._read_texts([" ".join(word.text for word in words[1:]).removeprefix("-- ")], depth)
            self.complete &= all(word.known for word in words)
        elif name == "command" and any(word.text in _QUERIES for word in words[1:2]):
            pass
        elif name in WRAPPERS or is_loader(name):
            self._read_wrapper(words, WRAPPERS.get(name, 0), depth)
        elif name in EVALUATING_BUILTINS:
            self.complete &= is_builtin_certain(words)
        elif name in INTERPRETERS:
            self._read_interpreter(words)
        else:
            self._read_arguments(words, depth)

    def _program_words(self, words: tuple[ShellWord, ...]) -> tuple[ShellWord, ...]:
        """Return the words from the program on; a command after a word of the syntax is a command of its own."""
        program = tuple(skip_assignments(words))
        variables = (assigned_name(word.source) for word in words[: len(words) - len(program)])
        self.complete &= not any(map(is_risky_variable, variables))
        self.complete &= all(map(is_assignment_certain, words[: len(words) - len(program)]))
        if len(program) > 1 and program[0].source in _RESERVED:
            self._add(program[1:])
        return program

    def _read_shell(self, words: Sequence[ShellWord], depth: int) -> None:
        self.complete &= not any(_SHELL_FILE_OPTION.match(word.text) for word in words)
        option = next((at for at, word in enumerate(words) if at and _SCRIPT_OPTION.fullmatch(word.text)), None)
        if option is None:
            self.complete &= len(words) == 2 and words[1].text in _HARMLESS
            return
        script = next((word for word in words[option + 1 :] if word.text[:1] not in "-+" or not word.text), None)
        self.complete &= script is not None and script.known
        self._read_texts([script.text] if script else [], depth)

    def _read_wrapper(self, words: Sequence[ShellWord], positionals: int, depth: int) -> None:
        added = [_FROM_INPUT] if program_name(words[0].text) in _READS_ARGUMENTS else []
        for at in _inner_starts(words, positionals):
            self._add([*words[at:], *added])
        self._read_texts([part for word in words[1:] for part in _scripts_in(word.text)], depth)
        if program_name(words[0].text) == "env":  # -S knows escapes and variables of its own
            self.complete &= not any("\\" in word.text or "$" in word.text for word in words)

    def _read_interpreter(self, words: Sequence[ShellWord]) -> None:
        """Code in the arguments or on standard input is not read; a script's file is a program like any other."""
        name = without_version(program_name(words[0].text))
        texts = [word.text for word in words[1:]]
        if texts and (texts[0] in _HARMLESS or texts == ["-v"]):
            return
        if "awk" in name:
            self.complete &= not any(map(_AWK_EXECUTES.search, texts))
        elif name in SCRIPT_LANGUAGES:
            script = texts.index("-m") if "-m" in texts else max(_inner_starts(words, 0), default=len(words)) - 1
            before = texts[:script]
            self.complete &= "-m" in texts or len(before) < len(texts)
            self.complete &= _CODE_MODULES.isdisjoint(texts[len(before) + 1 : len(before) + 2])
            self.complete &= not any(map(_INLINE_CODE.fullmatch, before))
        else:
            self.complete = False

    def _read_arguments(self, words: Sequence[ShellWord], depth: int) -> None:
        """Read the arguments of a program as scripts, unless it runs nothing with them."""
        name = program_name(words[0].text)
        if name in _SEDS:
            self.complete &= not any(executing_sed_words(words[1:]))
        elif not runs_nothing(name) and not is_harmless(words):
            for at, word in enumerate(words[1:], 2):
                self.complete &= word.text not in _STANDARD_INPUT and (word.known or not may_be_option(word))
                if word.text in _COMMAND_OPTIONS.get(name, ()):
                    self._add(words[at:])
                self._read_texts(filter(_SCRIPT.search, _values(word.text)), depth)

    def _read_shell_input(self, commands: Iterable[Sequence[ShellWord]], texts: list[str], depth: int) -> None:
        """Read what a shell without a script may get: here-documents, and what `echo` writes into the pipe."""
        programs = [(program_name(words[0].text), words) for each in commands if (words := skip_assignments(each))]
        if not self.complete and any(name in SHELLS for name, _ in programs):
            echoed = [
                " ".join(word.text for word in words[1:]) for name, words in programs if name in ("echo", "printf")
            ]
            self._read_texts([*texts, *echoed], depth)

    def _read_texts(self, scripts: Iterable[str], depth: int) -> None:
        for script in scripts:
            self.read_script(script, depth + 1)


def _values(text: str) -> Iterator[str]:
    """Yield what of an argument may be a script: `-calias.x=!rm y` has `rm y`."""
    parts = text.split("=")
    for at in range(len(parts)):
        value = "=".join(parts[at:])
        yield value.removeprefix("!")
        if value.startswith("-") and not value.startswith("--"):
            yield from (value[start:] for start in range(2, min(len(value), _MAX_CLUSTER)))


def _scripts_in(text: str) -> Iterator[str]:
    """Yield what a wrapper may run of a word: `-vSrm x` and `--split-string=rm x` have `rm x`."""
    if not _BLANK.search(text):
        return
    yield text
    if text.startswith("--"):
        yield text.partition("=")[2]
    elif text.startswith("-"):
        yield from (text[at:] for at in range(2, min(len(text), _MAX_CLUSTER)))


def _inner_starts(words: Sequence[ShellWord], positionals: int) -> Iterator[int]:
    """Yield where the command inside a wrapper's words can begin: after options, their values, and positionals."""
    after_option = False
    for at in range(1, len(words)):
        text = words[at].text
        if text.startswith("-") or assigned_name(words[at].source):
            after_option = text.startswith("-")
            continue
        yield at
        if not after_option:
            if not positionals:
                return
            positionals -= 1
        after_option = False
