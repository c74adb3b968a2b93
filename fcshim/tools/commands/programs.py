"""Programs and options that execute other programs.

Rule: a guard's tables: what is listed here is asked about. A program that is not listed can still run others
(`make`, `npm test`): a rule that allows such a program allows what it runs.
"""

import re
from collections.abc import Iterator, Sequence

from fcshim.tools.commands.words import ShellWord, program_name

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash", "csh", "tcsh"})
WRAPPERS = {
    **dict.fromkeys(
        (
            *(
                "sudo",
                "doas",
                "pkexec",
                "env",
                "nohup",
                "nice",
                "ionice",
                "xargs",
                "exec",
                "command",
                "builtin",
                "time",
            ),
            *("stdbuf", "setsid", "unshare", "nsenter", "strace", "ltrace", "watch", "parallel", "busybox", "toybox"),
            *("script", "systemd-run", "numactl", "caffeinate", "fakeroot", "firejail", "bwrap", "proot", "coproc"),
            *("unbuffer", "valgrind", "rlwrap", "torsocks", "proxychains", "xvfb-run", "setpriv", "entr", "npx"),
            *("bunx", "pipx", "uvx", "trap", "mapfile", "readarray", "compgen", "complete", "bind", "tmux", "screen"),
        ),
        0,
    ),
    **dict.fromkeys(
        ("timeout", "chroot", "flock", "taskset", "chrt", "ssh", "su", "runuser", "uv", "poetry", "pipenv", "hatch"), 1
    ),
}
"""Programs that run the command in their arguments, and how many arguments stand before it."""
SCRIPT_LANGUAGES = frozenset(
    {
        "python",
        "pypy",
        "perl",
        "ruby",
        "node",
        "nodejs",
        "deno",
        "bun",
        "php",
        "lua",
        "luajit",
        "tclsh",
        "Rscript",
        "julia",
    }
)
"""Programs that run a file, or code in an option."""
INTERPRETERS = SCRIPT_LANGUAGES | frozenset(
    {
        *("awk", "gawk", "mawk", "nawk", "expect", "R", "osascript", "powershell", "pwsh", "ghc", "jshell", "irb"),
        *("vi", "vim", "nvim", "ex", "view", "emacs", "ed", "gdb", "lldb", "sqlite3", "psql", "mysql", "at", "batch"),
        *("crontab", "ftp", "groovy", "scala", "guile", "racket", "sbcl", "source", ".", "eval", "alias", "hash"),
        "enable",
    }
)
"""Programs whose arguments or input are programs."""
EVALUATING_BUILTINS = frozenset(
    {"test", "[", "[[", "let", "declare", "typeset", "local", "export", "readonly", "read", "printf", "unset"}
)
"""They evaluate array subscripts in their arguments, quoted or not: `test -v 'a[$(rm x)]'`."""
_RISKY_VARIABLE = re.compile(
    r"(?:LD|DYLD|GIT|BASH|PERL5?|RUBY|PYTHON|NODE|JAVA|JDK|NPM_CONFIG|npm_config)_?\w*"
    r"|PATH|ENV|SHELL\w*|IFS|PS[0-4]|PROMPT_COMMAND|\w*PAGER|\w*EDITOR|VISUAL|BROWSER|LESS\w*|SSH_ASKPASS|SUDO_ASKPASS"
)
_SED_EXECUTES = re.compile(r"(?:^|[;{}\n\s\d$/])[eEwW](?:\s|$)|(?<=\W)[gpIiMm0-9]*[ew][gpIiMm0-9]*(?:$|[\s;}])")
_OPTIONS: dict[str, str] = {
    "git": "--upload-pack --receive-pack --exec --extcmd --ext-diff --textconv --output --open-files-in-pager",
    "git clone": "-c -u --config --template",
    **dict.fromkeys(("git fetch", "git pull", "git ls-remote"), "--upload-pack"),
    "git push": "--receive-pack --exec",
    "git archive": "--exec --output -o",
    "git grep": "-O",
    "git rebase": "-x -i --interactive",
    "git difftool": "-x",
    "find": "-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls",
    "fd": "-x -X --exec --exec-batch",
    "fdfind": "-x -X --exec --exec-batch",
    "tar": "-I -F --to-command --checkpoint-action --use-compress-program --rsh-command --info-script "
    "--new-volume-script",
    "bsdtar": "--use-compress-program",
    "rsync": "-e --rsh --rsync-path",
    "scp": "-S -o -F",
    "sftp": "-S -o -F -b",
    "ssh": "-o -F -J",
    "sort": "--compress-program -o --output",
    "split": "--filter",
    "zip": "-T -TT --unzip-command",
    "rg": "--pre --hostname-bin",
    "sed": "-f --file",
    "man": "-P -H --pager --html --config-file -C",
    "less": "-k -K -o -O --lesskey-src",
    "make": "-f -E --file --makefile --eval -C --directory",
    "gmake": "-f -E --file --makefile --eval -C --directory",
    "cargo": "--config",
    "go": "-exec -toolexec -vettool -overlay",
    "curl": "-K --config",
    "wget": "-e --execute --use-askpass --use-server",
    "tcpdump": "-z",
    "nmap": "--script",
    "openssl": "-engine -provider",
    "gcc": "-wrapper -fplugin -B -specs",
    "cc": "-wrapper -fplugin -B -specs",
    "g++": "-wrapper -fplugin -B -specs",
    "clang": "-fplugin -B -load",
    "install": "--strip-program",
    "pip": "--config-settings -C --python",
    "pytest": "-p -c --config-file --override-ini -o --rootdir --confcutdir",
    "mypy": "--python-executable --config-file",
    "eslint": "-c --config --rulesdir --plugin --resolve-plugins-relative-to --parser",
    "prettier": "--plugin --config",
    "npm": "--script-shell --node-options --prefix --git --globalconfig --userconfig",
    "docker": "--config -H --host -c --context",
    "apt": "-o --option -c --config-file",
    "apt-get": "-o --option -c --config-file",
    "dpkg": "--pre-invoke --post-invoke",
}
"""Options that execute what follows them, load code, or write a file; with a subcommand, or for all of them."""
_LEADING_OPTIONS = {"git": "-c -C -p --paginate --exec-path --config-env --git-dir --work-tree"}
"""Options that count only before the subcommand: `git log -c` shows merges."""
_SUBCOMMANDS: dict[str, str] = {
    "git": "config bisect submodule difftool mergetool filter-branch send-email daemon shell hook for-each-repo "
    "instaweb remote-ext remote-fd credential",
    "npm": "exec x explore config set init create",
    "pnpm": "exec dlx config create",
    "yarn": "exec dlx config create node",
    "go": "run generate tool env",
    "cargo": "run install",
    "ip": "netns vrf",
    "docker": "run exec",
    "podman": "run exec",
    "kubectl": "exec run",
}
_VALUE_OPTIONS = frozenset({"-c", "-C", "--git-dir", "--work-tree", "--namespace", "--prefix"})
_EXT_TRANSPORT = re.compile(r"(?:ext|fd)::")


def is_interpreter(name: str) -> bool:
    """Return whether a program runs the program in its arguments or its input: shells, wrappers, interpreters."""
    return any(without_version(name) in group for group in (SHELLS, WRAPPERS, INTERPRETERS)) or is_loader(name)


def without_version(name: str) -> str:
    """Return a program's name without its version: `python3.11` is `python`."""
    return name.rstrip("0123456789.-") or name


def is_loader(name: str) -> bool:
    """Return whether this is the dynamic loader, which runs the program in its arguments."""
    return name.startswith(("ld-linux", "ld-musl", "ld.so"))


def is_risky_variable(name: str) -> bool:
    """Return whether a variable decides which programs run."""
    return _RISKY_VARIABLE.fullmatch(name) is not None


def executing_words(words: Sequence[ShellWord]) -> Iterator[ShellWord]:
    """Yield the arguments of a command that make its program execute something, load code or write a file."""
    program, arguments = program_name(words[0].text), words[1:]
    subcommand_at = _subcommand_index(arguments)
    subcommand = arguments[subcommand_at].text if subcommand_at < len(arguments) else ""
    options = _OPTIONS.get(program, "").split() + _OPTIONS.get(f"{program} {subcommand}", "").split()
    leading = _LEADING_OPTIONS.get(program, "").split()
    for at, word in enumerate(arguments):
        listed = options + (leading if at < subcommand_at else [])
        guess = not leading or at <= subcommand_at or f"{program} {subcommand}" in _OPTIONS
        if (
            (guess and listed and _may_be_option(word))
            or _is_listed(word, listed)
            or _executes_otherwise(program, word, at)
        ):
            yield word
    if subcommand in _SUBCOMMANDS.get(program, "").split():
        yield arguments[subcommand_at]


def _subcommand_index(arguments: Sequence[ShellWord]) -> int:
    at = 0
    while at < len(arguments) and arguments[at].text.startswith("-"):
        at += 2 if arguments[at].text in _VALUE_OPTIONS else 1
    return at


def _may_be_option(word: ShellWord) -> bool:
    """Return whether the shell may make an option of a word: `*` of a file name, `$x` of anything."""
    return not word.known and not word.text.startswith(("-", "/", "./")) and not word.source[:1].isalnum()


def _is_listed(word: ShellWord, options: Sequence[str]) -> bool:
    """Return whether a word is one of the options: exactly, abbreviated, or in a cluster."""
    name = word.text.partition("=")[0]
    if name.startswith("--"):
        return (len(name) > 4 and any(each.startswith(name) for each in options)) or name in options
    if not name.startswith("-"):
        return False
    if name in options:
        return True
    return any(len(each) == 2 and each[1] in name[1:] for each in options)


def _executes_otherwise(program: str, word: ShellWord, at: int) -> bool:
    text = word.text
    match program:
        case "sed":
            return not text.startswith("-") and _SED_EXECUTES.search(text) is not None
        case "make" | "gmake":
            return "=" in text
        case "git":
            return _EXT_TRANSPORT.match(text) is not None
        case "tar":
            return at == 0 and not text.startswith("-") and bool(set("IF") & set(text)) and text.isalpha()
        case "less" | "more":
            return text.startswith("+")
        case _:
            return False
