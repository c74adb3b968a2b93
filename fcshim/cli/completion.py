"""`fcshim completion`: a script that completes commands, options and choices in a shell.

Rule: everything comes from the commands' own parsers. The script holds words only, so completing starts no program.
"""

import argparse
import shlex
from collections.abc import Iterator
from importlib import import_module

from fcshim.cli.text import write_data

_DESCRIPTION = """\
Write a script that completes the commands, options and choices of fcshim in a shell; where it knows
none, the shell completes file names.
"""

_EPILOG = """\
examples:
  echo 'eval "$(fcshim completion bash)"' >> ~/.bashrc
  echo 'eval "$(fcshim completion zsh)"' >> ~/.zshrc      after compinit
  fcshim completion fish > ~/.config/fish/completions/fcshim.fish
"""

_BASH = """\
_fcshim() {{
  local words current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
  local command="${{COMP_WORDS[1]}}"
  [[ $COMP_CWORD -gt 1 ]] || command= previous=
  case "$command $previous" in
{choices}
  *) case "$command" in
{commands}
    esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _fcshim fcshim
"""
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"

_Words = dict[str, dict[str, tuple[str, ...]]]
"""For each command its words: options and actions, each with the values that may follow it."""


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """Set the description and add the arguments of the command."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish")


def run(arguments: argparse.Namespace) -> int:
    """Write the script."""
    from fcshim.cli.entry import COMMANDS  # noqa: PLC0415 - `entry` imports the commands

    words: _Words = {}
    for name in COMMANDS:
        parser = argparse.ArgumentParser(prog=f"fcshim {name}")
        import_module(f"fcshim.cli.{name}").configure_parser(parser)
        words[name] = dict(_parser_words(parser))
    match arguments.shell:
        case "fish":
            write_data("\n".join(_fish_lines(words, COMMANDS)))
        case "zsh":
            write_data(_ZSH + _bash_script(words))
        case _:
            write_data(_bash_script(words))
    return 0


def _parser_words(parser: argparse.ArgumentParser) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the options and actions of a parser, each with its choices."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other list of them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - see above
            for name, child in action.choices.items():
                yield name, ()
                yield from _parser_words(child)
            continue
        choices = tuple(map(str, action.choices or ()))
        yield from ((option, choices) for option in action.option_strings)
        if not action.option_strings:
            yield from ((choice, ()) for choice in choices)


def _bash_script(words: _Words) -> str:
    choices = [
        f"  {shlex.quote(f'{command} {option}')}) words={shlex.quote(' '.join(values))} ;;"
        for command, options in words.items()
        for option, values in options.items()
        if values
    ]
    commands = [f"    {name}) words={shlex.quote(' '.join(options))} ;;" for name, options in words.items()]
    commands.append(f"    '') words={shlex.quote(' '.join([*words, '--help', '--version']))} ;;")
    return _BASH.format(choices="\n".join(choices), commands="\n".join(commands))


def _fish_lines(words: _Words, summaries: dict[str, str]) -> Iterator[str]:
    for name, options in words.items():
        yield f"complete -c fcshim -n __fish_use_subcommand -a {name} -d {_fish_quote(summaries[name])}"
        seen = f"-n {_fish_quote(f'__fish_seen_subcommand_from {name}')}"
        for option, values in options.items():
            kind = "-l" if option.startswith("--") else "-s" if option.startswith("-") else "-a"
            follows = f" -x -a {_fish_quote(' '.join(values))}" if values else ""
            yield f"complete -c fcshim {seen} {kind} {option.lstrip('-')}{follows}"


def _fish_quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
