"""Programs and options that execute other programs.

Rule: what is listed in these tables needs approval. A program that is not listed can still run others (`make`, `npm
test`): a rule that allows such a program allows what it runs.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache

from fcshim.tools.commands.sed import executing_sed_words
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
            *("setarch", "linux32", "linux64", "prlimit", "choom", "dbus-run-session", "dbus-launch", "eatmydata"),
            *("catchsegv", "hyperfine", "watchexec", "nodemon", "chronic", "ifne", "ts", "tini", "dumb-init"),
            *("start-stop-daemon", "jobs", "byobu", "daemonize", "daemon", "cross-env", "concurrently", "x86_64"),
            *("heaptrack", "aa-exec", "capsh", "softlimit", "chpst", "nix-shell", "catatonit", "i386"),
        ),
        0,
    ),
    **dict.fromkeys(
        ("timeout", "chroot", "flock", "taskset", "chrt", "ssh", "su", "runuser", "uv", "poetry", "pipenv", "hatch"), 1
    ),
    **dict.fromkeys(("perf", "rr", "pyenv", "direnv", "conda", "mamba", "micromamba", "asdf", "mise", "op"), 1),
    **dict.fromkeys(("doppler", "foreman", "honcho", "dotenv"), 1),
    **dict.fromkeys(
        ("gosu", "su-exec", "cpulimit", "faketime", "sg", "cgexec", "runcon", "setlock", "s6-setuidgid"), 1
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
        "ipython",
        "xonsh",
        "elixir",
        "ts-node",
        "tsx",
    }
)
"""Programs that run a file, or code in an option."""
INTERPRETERS = SCRIPT_LANGUAGES | frozenset(
    {
        *("awk", "gawk", "mawk", "nawk", "expect", "R", "osascript", "powershell", "pwsh", "ghc", "jshell", "irb"),
        *("vi", "vim", "nvim", "ex", "view", "emacs", "ed", "gdb", "lldb", "sqlite3", "psql", "mysql", "at", "batch"),
        *("crontab", "ftp", "groovy", "scala", "guile", "racket", "sbcl", "source", ".", "eval", "alias", "hash"),
        *("enable", "red", "rvim", "rview", "gvim", "vimdiff", "nano", "emacsclient", "m4", "dc", "nu", "elvish"),
        *("fc", "socat", "nc", "ncat", "netcat", "erl", "iex", "wine", "run-parts", "logrotate"),
        *("ansible", "sqlite"),
    }
)
"""Programs whose arguments or input are programs."""
_DATA_PROGRAMS = (
    "git hg svn gh glab docker podman kubectl helm apt apt-get dpkg brew dnf yum pacman apk npm pnpm yarn bun pip "
    "pip3 cargo rustup go gem pytest tox ruff mypy eslint tsc black make gmake ninja cmake echo printf cat tac "
    "head tail less more wc nl sort uniq cut paste tr fold fmt column rev grep egrep fgrep rg ag ack find fd "
    "fdfind locate ls ll la dir tree stat file du df pwd cd pushd popd basename dirname realpath readlink which "
    "whereis type whatis man info apropos help cp mv ln mkdir rmdir rm touch chmod chown chgrp install mktemp tee "
    "diff cmp comm patch sed gsed jq yq tar zip unzip gzip gunzip zcat bzip2 xz 7z curl wget scp sftp rsync ping "
    "dig host test [ [[ true false sleep date cal id whoami who hostname uname uptime ps pgrep pkill kill killall "
    "top htop free export unset set declare typeset local readonly read return exit break continue shift umask "
    "ulimit wait let alias unalias history seq yes expr bc factor md5sum sha1sum sha256sum cksum base64 xxd od "
    "hexdump strings nm objdump ldd systemctl journalctl service crontab openssl ssh-keygen gpg adduser useradd "
    "for case select in"
)
"""Programs whose arguments are data, or words of their own (`git rm`); of any other, an argument may be a program."""
EVALUATING_BUILTINS = frozenset(
    {"test", "[", "[[", "let", "declare", "typeset", "local", "export", "readonly", "read", "printf", "unset", "wait"}
)
"""They evaluate array subscripts in their arguments, quoted or not: `test -v 'a[$(rm x)]'`."""
_RISKY_VARIABLE = re.compile(
    r"(?:LD|DYLD|GIT|BASH|PERL5?|RUBY|PYTHON|NODE|JAVA|JDK|NPM_CONFIG|npm_config)_?\w*"
    r"|PATH|ENV|SHELL\w*|IFS|PS[0-4]|PROMPT_COMMAND|\w*PAGER|\w*EDITOR|VISUAL|BROWSER|LESS\w*|SSH_ASKPASS|SUDO_ASKPASS"
)
_OPTIONS: dict[str, str] = {
    "git": "--upload-pack --receive-pack --exec --extcmd --ext-diff --textconv --output --open-files-in-pager",
    "git clone": "-c -u --config --template",
    "git init": "--template",
    "git help": "-w --web",
    **dict.fromkeys(("git fetch", "git pull", "git ls-remote"), "--upload-pack"),
    "git push": "--receive-pack --exec",
    "git archive": "--exec --output -o",
    "git grep": "-O",
    "git rebase": "-x -i --interactive",
    "git difftool": "-x",
    "find": "-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls -files0-from",
    "fd": "-x -X --exec --exec-batch",
    "fdfind": "-x -X --exec --exec-batch",
    "tar": "-I -F -P --to-command --checkpoint-action --use-compress-program --rsh-command --rmt-command "
    "--info-script --new-volume-script --absolute-names",
    "bsdtar": "--use-compress-program",
    "rsync": "-e -M --rsh --rsync-path --remote-option",
    "scp": "-S -o -F -D",
    "sftp": "-S -o -F -b -D",
    "ssh": "-o -F -J",
    "sort": "--compress-program -o --output",
    "split": "--filter",
    "zip": "-T -TT --unzip-command",
    "rg": "--pre --hostname-bin",
    "man": "-P -H --pager --html --config-file -C --preprocessor -p -T",
    "less": "-k -K -o -O --lesskey-src --log-file --LOG-FILE",
    "make": "-f -E --file --makefile --eval -C --directory",
    "gmake": "-f -E --file --makefile --eval -C --directory",
    "cargo": "--config",
    "go": "-exec -toolexec -vettool -overlay",
    "curl": "-K --config --engine",
    "wget": "-e --execute --use-askpass --use-server --config",
    "tcpdump": "-z",
    "nmap": "--script --datadir --interactive",
    "openssl": "-engine -provider -provider-path -config -pre -post",
    "gcc": "-wrapper -fplugin -B -specs --specs -fuse-ld",
    "cc": "-wrapper -fplugin -B -specs --specs -fuse-ld",
    "g++": "-wrapper -fplugin -B -specs --specs -fuse-ld",
    "clang": "-fplugin -B -load",
    "install": "--strip-program",
    "pip": "--config-settings -C --python",
    "pytest": "--pdbcls -p -c --config-file --override-ini -o --rootdir --confcutdir",
    "mypy": "--python-executable --config-file",
    "eslint": "-c --config --rulesdir --plugin --resolve-plugins-relative-to --parser",
    "prettier": "--plugin --config",
    "npm": "--viewer --editor -C --script-shell --node-options --prefix --git --globalconfig --userconfig",
    "docker": "--config -H --host -c --context",
    "apt": "-o --option -c --config-file",
    "apt-get": "-o --option -c --config-file",
    "hg": "--config",
    "svn": "--config-option --config-dir --diff-cmd --diff3-cmd --editor-cmd",
    "ctest": "--script --build-and-test",
    "gradle": "-I --init-script",
    "kubectl": "--kubeconfig",
    "systemctl": "-H --host",
    "dpkg": "--pre-invoke --post-invoke --status-logger",
}
"""Options that execute what follows them, load code, or write a file; with a subcommand, or for all of them."""
_LEADING_OPTIONS = {"git": "-c -C -p --paginate --exec-path --config-env --git-dir --work-tree"}
"""Options that count only before the subcommand: `git log -c` shows merges."""
_SUBCOMMANDS: dict[str, str] = {
    "git": "config bisect submodule difftool mergetool filter-branch send-email daemon shell hook for-each-repo "
    "instaweb remote-ext remote-fd credential filter-repo web--browse cvsserver http-backend",
    "npm": "exec x explore config c set init innit create edit",
    "pip": "config",
    "pnpm": "exec dlx config create",
    "yarn": "exec dlx config create node",
    "go": "run generate tool env",
    "cargo": "run install",
    "ip": "netns vrf",
    **dict.fromkeys(("docker", "podman", "docker-compose"), "run exec create"),
    "kubectl": "exec run debug attach plugin",
    "bundle": "exec",
    "gem": "exec",
    "bazel": "run",
    "mvn": "exec:exec exec:java",
    "gh": "alias extension codespace",
    "openssl": "engine",
    "nix": "run shell develop",
    "heroku": "run",
    "vagrant": "ssh",
    "sops": "exec-env exec-file",
    "meson": "devenv",
}
_GROUPS = {"docker": "container compose service", "podman": "container compose"}
"""Words before a subcommand: `docker container exec`."""
_HARMLESS_LEADING = {
    "git": "-P --no-pager --bare --no-replace-objects --literal-pathspecs --glob-pathspecs --noglob-pathspecs "
    "--icase-pathspecs --no-optional-locks --no-lazy-fetch --no-advice --version --help -v -h --html-path --man-path "
    "--info-path"
}
"""The leading options that execute nothing and take no value; after any other, the subcommand's position is unknown."""
_VALUE_OPTIONS = frozenset({"-c", "-C", "--git-dir", "--work-tree", "--namespace", "--prefix"})
_SEDS = frozenset({"sed", "gsed"})
_EXECUTING_TEXTS = {
    **dict.fromkeys(("make", "gmake"), re.compile("=")),
    **dict.fromkeys(("less", "more"), re.compile(r"\A\+")),
    **dict.fromkeys(("gcc", "cc", "g++", "clang"), re.compile(r"\A@|plugin")),
    "cmake": re.compile(r"\A-[EP]\Z"),
    "git": re.compile(r"\A(?:ext|fd)::"),
    "go": re.compile(r"-extld|-extar|-compiler"),
}
"""Texts in an argument with which it executes something, for programs that do not use an option for that."""


def is_interpreter(name: str) -> bool:
    """Return whether a program runs the program in its arguments or its input: shells, wrappers, interpreters."""
    return any(without_version(name) in group for group in (SHELLS, WRAPPERS, INTERPRETERS)) or is_loader(name)


def may_run_arguments(name: str) -> bool:
    """Return whether a program is unknown, so that it may run the program in its arguments."""
    return name not in _data_programs() and not is_interpreter(name)


@cache
def _data_programs() -> frozenset[str]:
    return frozenset(_DATA_PROGRAMS.split())


def without_version(name: str) -> str:
    """Return a program's name without its version: `python3.11` is `python`, but `m4` has none."""
    return name if name in WRAPPERS or name in INTERPRETERS else name.rstrip("0123456789.-") or name


def is_loader(name: str) -> bool:
    """Return whether this is the dynamic loader, which runs the program in its arguments."""
    return name.startswith(("ld-linux", "ld-musl", "ld.so"))


def is_risky_variable(name: str) -> bool:
    """Return whether a variable decides which programs run."""
    return _RISKY_VARIABLE.fullmatch(name) is not None


def executing_words(words: Sequence[ShellWord]) -> Iterator[ShellWord]:
    """Yield the arguments of a command that make its program execute something, load code or write a file."""
    program, arguments = program_name(words[0].text), words[1:]
    if program in _SEDS:
        yield from executing_sed_words(arguments)
        return
    possible = _possible_subcommands(program, arguments)
    subcommand_at = possible[-1] if possible else len(arguments)
    subcommand = arguments[subcommand_at].text if possible else ""
    options = _OPTIONS.get(program, "").split() + _OPTIONS.get(f"{program} {subcommand}", "").split()
    leading = _LEADING_OPTIONS.get(program, "").split()
    for at, word in enumerate(arguments):
        listed = options + (leading if at < subcommand_at else [])
        guess = not leading or at <= subcommand_at or f"{program} {subcommand}" in _OPTIONS
        if (
            (guess and listed and _may_be_option(word))
            or _is_listed(word, listed)
            or (at < subcommand_at and _is_unknown_leading(program, word))
            or _executes_otherwise(program, word, at)
        ):
            yield word
    names = _SUBCOMMANDS.get(program, "").split()
    yield from (arguments[at] for at in possible if arguments[at].text in names)


def _possible_subcommands(program: str, arguments: Sequence[ShellWord]) -> list[int]:
    """Return where the subcommand may stand: the value of an option, the first other word, one after a group."""
    found: list[int] = []
    after_option = False
    groups = _GROUPS.get(program, "").split()
    for at, word in enumerate(arguments):
        if word.text.startswith("-"):
            after_option = word.text in _VALUE_OPTIONS or program not in _LEADING_OPTIONS
            continue
        found += [] if after_option and program in _LEADING_OPTIONS else [at]
        if not after_option and word.text not in groups:
            break
        after_option = False
    return found


def _is_unknown_leading(program: str, word: ShellWord) -> bool:
    known = _HARMLESS_LEADING.get(program, "").split()
    return bool(known) and word.text.startswith("-") and word.text not in known


def _may_be_option(word: ShellWord) -> bool:
    """Return whether the shell may expand a word to an option: `*` to a file name, `$x` to anything."""
    return not word.known and not word.text.startswith(("-", "/", "./")) and not word.source[:1].isalnum()


def _is_listed(word: ShellWord, options: Sequence[str]) -> bool:
    """Return whether a word is one of the options: exactly, abbreviated, or in a cluster."""
    name = word.text.partition("=")[0]
    if name.startswith("--"):
        return (len(name) > 3 and any(each.startswith(name) for each in options)) or name in options
    if not name.startswith("-"):
        return False
    if name in options:
        return True
    return any(len(each) == 2 and each[1] in name[1:] for each in options)


def _executes_otherwise(program: str, word: ShellWord, at: int) -> bool:
    text = word.text
    if program == "tar":
        return at == 0 and not text.startswith("-") and bool(set("IF") & set(text)) and text.isalpha()
    pattern = _EXECUTING_TEXTS.get(program)
    return pattern is not None and pattern.search(text) is not None
