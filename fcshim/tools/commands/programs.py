"""Programs that run the program in their arguments or their input, and variables that decide which programs run.

Rule: a deny or ask rule is compared with what they run too.
"""

import re

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
            "stdbuf", "setsid", "unshare", "nsenter", "strace", "ltrace", "watch", "parallel", "busybox", "toybox",
            "script", "systemd-run", "numactl", "caffeinate", "fakeroot", "firejail", "bwrap", "proot", "coproc",
            "unbuffer", "valgrind", "rlwrap", "torsocks", "proxychains", "xvfb-run", "setpriv", "entr", "npx",
            "bunx", "pipx", "uvx", "trap", "mapfile", "readarray", "compgen", "complete", "bind", "tmux", "screen",
            "setarch", "linux32", "linux64", "prlimit", "choom", "dbus-run-session", "dbus-launch", "eatmydata",
            "catchsegv", "hyperfine", "watchexec", "nodemon", "chronic", "ifne", "ts", "tini", "dumb-init",
            "start-stop-daemon", "jobs", "byobu", "daemonize", "daemon", "cross-env", "concurrently", "x86_64",
            "heaptrack", "aa-exec", "capsh", "softlimit", "chpst", "nix-shell", "catatonit", "i386",
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
}  # fmt: skip
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
        "awk", "gawk", "mawk", "nawk", "expect", "R", "osascript", "powershell", "pwsh", "ghc", "jshell", "irb",
        "vi", "vim", "nvim", "ex", "view", "emacs", "ed", "gdb", "lldb", "sqlite3", "psql", "mysql", "at", "batch",
        "crontab", "ftp", "groovy", "scala", "guile", "racket", "sbcl", "source", ".", "eval", "alias", "hash",
        "enable", "red", "rvim", "rview", "gvim", "vimdiff", "nano", "emacsclient", "m4", "dc", "nu", "elvish",
        "fc", "socat", "nc", "ncat", "netcat", "erl", "iex", "wine", "run-parts", "logrotate",
        "ansible", "sqlite",
    }
)  # fmt: skip
"""Programs whose arguments or input are programs."""
_RISKY_VARIABLE = re.compile(
    r"(?:LD|DYLD|GIT|BASH|PERL5?|RUBY|PYTHON|NODE|JAVA|JDK|NPM_CONFIG|npm_config)_?\w*"
    r"|PATH|ENV|SHELL\w*|IFS|PS[0-4]|PROMPT_COMMAND|\w*PAGER|\w*EDITOR|VISUAL|BROWSER|LESS\w*|SSH_ASKPASS|SUDO_ASKPASS"
)


def is_interpreter(name: str) -> bool:
    """Return whether a program runs the program in its arguments or its input: shells, wrappers, interpreters."""
    return any(without_version(name) in group for group in (SHELLS, WRAPPERS, INTERPRETERS)) or is_loader(name)


def without_version(name: str) -> str:
    """Return a program's name without its version: `python3.11` is `python`, but `m4` has none."""
    return name if name in WRAPPERS or name in INTERPRETERS else name.rstrip("0123456789.-") or name


def is_loader(name: str) -> bool:
    """Return whether this is the dynamic loader, which runs the program in its arguments."""
    return name.startswith(("ld-linux", "ld-musl", "ld.so"))


def is_risky_variable(name: str) -> bool:
    """Return whether a variable decides which programs run."""
    return _RISKY_VARIABLE.fullmatch(name) is not None
