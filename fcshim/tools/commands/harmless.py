"""The programs, subcommands, options and operands that are known as harmless: one row for each program.

Rule: a use is harmless if it runs no program and loads no code that its words name, writes no file outside its purpose,
and neither publishes nor discards anything. Code of the project (tests, recipes, hooks) runs as the project has it. What
no row names is asked about.
"""

from collections.abc import Mapping

import msgspec


class Usage(msgspec.Struct, frozen=True):
    """What a program, or a subcommand of it, may be given.

    `options`: `-a` has no value, `-n=` one, `--arg==` two, `--color?` perhaps one, attached; `-#` is a number, `--report=term` that
    value alone, `-c!` has a value and is harmless only where a rule spells it out; `*` is every option. `operands` is a key
    of `usage.OPERANDS`.
    """

    options: str = ""
    operands: str = "any"
    subcommands: Mapping[str, "Usage"] = {}
    """What follows one of these words has a row of its own."""
    single_dash: bool = False
    """Options are whole words (`-name`), never clusters of letters."""
    least: int = 0
    most: int = 1_000
    runs: int | None = None
    """A command follows, after that many operands; it decides whether the use is harmless."""
    named: bool = False
    """An allow rule must name the wrapper: one for the inner command does not cover it."""
    assigns: bool = False
    """Assignments may stand before the inner command."""
    appends: bool = False
    """The inner command gets further arguments, which the line does not show."""


VARIABLES = frozenset(
    ["CI", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "COLUMNS", "TZ", "LANG", "LC_ALL", "NODE_ENV", "RUST_BACKTRACE", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"]
)
"""Variables that decide neither which programs run nor which files they load."""

INERT = frozenset(
    ["cp", "mv", "rm", "ln", "mkdir", "rmdir", "touch", "chmod", "chown", "chgrp", "tee", "dd", "truncate", "kill", "pkill", "killall", "mktemp", "unlink", "gzip", "gunzip", "bzip2", "xz", "unzip", "[", "[[", "printf", "shift", "umask", "ulimit", "exit", "return", "break", "continue", "for", "case", "select", "in", "local"]
)
"""Programs beside those of the table that run no other one, whatever their arguments are: a deny rule does not ask about these."""

_NONE = Usage(operands="none")
_ANY = Usage("*")
_FILES = Usage("*", "inside")

_DIFF = (
    "-p -u -s -U= -w -b -M? -C? -S= -G= -R -a -q -W -z -c -m -1 -2 -3 --patch --no-patch --unified? --raw --stat? --numstat --shortstat "
    "--dirstat? --summary --compact-summary --name-only --name-status --color? --no-color --word-diff? --color-words? "
    "--ignore-all-space --ignore-space-change --ignore-space-at-eol --ignore-blank-lines --find-renames? --find-copies? --no-renames "
    "--diff-filter? --pickaxe-regex --pickaxe-all --minimal --patience --histogram --diff-algorithm? --abbrev? --binary --full-index "
    "--relative? --text --exit-code --quiet --function-context --no-ext-diff --no-textconv --no-prefix --submodule? --cc --check"
)
_LOG = (
    f"{_DIFF} -n= -# -i -E -F -P -L= -g --oneline --graph --decorate? --no-decorate --all --branches? --tags? --remotes? "
    "--max-count? --skip? --since= --after= --until= --before= --author= --committer= --grep= --all-match --invert-grep --merges "
    "--no-merges --first-parent --reverse --follow --pretty? --format? --date? --date-order --topo-order --author-date-order "
    "--abbrev-commit --no-abbrev-commit --left-right --cherry-pick --cherry --cherry-mark --walk-reflogs --simplify-by-decoration "
    "--full-history --no-walk? --source --boundary --relative-date --parents --children --notes? --no-notes --count"
)
_GIT = {
    **dict.fromkeys(
        ("status", "add", "rev-parse", "ls-files", "ls-tree", "describe", "check-ignore", "cherry", "count-objects"),
        _ANY,
    ),
    **dict.fromkeys(("merge-base", "show-ref"), _ANY),
    "diff": Usage(f"{_DIFF} --cached --staged --merge-base --no-index --ours --theirs --base"),
    **dict.fromkeys(("log", "show", "rev-list", "whatchanged"), Usage(_LOG)),
    "shortlog": Usage("-s -n -e --summary --numbered --email --since= --until= --all --no-merges"),
    "blame": Usage(
        "-L= -w -e -s -l -t -f -n -p -M? -C? --date= --porcelain --line-porcelain --since= --show-email --first-parent"
    ),
    "grep": Usage(
        "-n -i -w -v -l -L -c -h -H -o -q -a -I -E -G -F -P -p -W -z -r -e= -f= -A= -B= -C= -m= -# --line-number --ignore-case "
        "--word-regexp --invert-match --count --name-only --files-with-matches --files-without-match --only-matching --extended-regexp "
        "--fixed-strings --perl-regexp --color? --no-color --break --heading --show-function --function-context --max-depth= "
        "--recurse-submodules --cached --untracked --no-index --and --or --not"
    ),
    "cat-file": Usage("-p -t -s -e"),
    "branch": Usage(
        "-a -r -v -l --all --remotes --list --verbose --show-current --merged? --no-merged? --contains? --no-contains? --points-at= "
        "--sort= --format= --column? --no-column --color? --no-color"
    ),
    "tag": Usage("-l -n? -a -m= --list --annotate --message= --sort= --format= --contains? --merged? --points-at="),
    "commit": Usage(
        "-m= -a -q -v -s -n -F= --message= --all --quiet --verbose --signoff --amend --no-edit --no-verify --allow-empty "
        "--allow-empty-message --file= --author= --date= --dry-run --short --porcelain --fixup= --squash="
    ),
    "checkout": Usage("-q --quiet", "none", {"-b": Usage("-q -t --quiet --track?")}),
    "switch": Usage("-c= -q -t -d --create= --quiet --track? --detach"),
    "restore": Usage("-q", "none", {"--staged": Usage("-q --quiet")}),
    "reset": Usage("-q --quiet --soft --mixed"),
    "stash": Usage(
        "-u -q --include-untracked",
        "none",
        {
            "list": Usage(_LOG),
            "show": Usage(f"{_DIFF} -u"),
            "push": Usage("-m= -u -q -k -S --message= --include-untracked --keep-index --staged"),
            **dict.fromkeys(("pop", "apply"), Usage("-q --index --quiet")),
        },
    ),
    "merge": Usage("-q -m= --ff-only --no-ff --ff --no-edit --abort --continue --squash --quiet --stat --no-stat"),
    "rebase": Usage("-q --onto= --abort --continue --skip --autostash --quiet"),
    **dict.fromkeys(("cherry-pick", "revert"), Usage("-x -n --no-edit --no-commit --abort --continue --skip --quit")),
    "fetch": Usage("-p -t -q -v --all --prune --tags --quiet --verbose --dry-run --depth= --unshallow", "name"),
    "pull": Usage(
        "-q -v -r --rebase? --no-rebase --ff-only --ff --no-ff --quiet --verbose --autostash --prune", "name"
    ),
    "ls-remote": Usage("-h -t -q --heads --tags --quiet --refs", "name"),
    "remote": Usage("-v --verbose", "none", {"get-url": Usage("--all --push")}),
    "reflog": Usage(_LOG, "none", {"show": Usage(_LOG)}),
    "worktree": Usage("", "none", {"list": _ANY}),
    "submodule": Usage("", "none", {"status": Usage("--cached --recursive")}),
    "bisect": Usage("", "none", dict.fromkeys(("start", "good", "bad", "reset", "log", "skip", "old", "new"), Usage())),
    "config": Usage(
        "--global --local --system --show-origin --show-scope --name-only -z",
        "none",
        dict.fromkeys(
            ("get", "list", "-l", "--list", "--get", "--get-all", "--get-regexp"),
            Usage("--global --local --system --show-origin --show-scope --name-only --all -z"),
        ),
    ),
    "version": _NONE,
}

_CARGO = (
    "-q -v -r -p= -F= -j= --quiet --verbose --release --all --workspace --package= --exclude= --all-targets --all-features "
    "--no-default-features --features= --lib --bins --bin= --examples --example= --tests --test= --benches --bench= --jobs= --profile= "
    "--locked --offline --frozen --keep-going --message-format= --color="
)
_CARGO_TEST = Usage(
    f"{_CARGO} --no-run --no-fail-fast --doc",
    "name",
    {"--": Usage("--nocapture --ignored --include-ignored --exact --show-output --test-threads= --skip= -q", "name")},
)
_CARGO_BUILD = Usage(_CARGO, "none")
_GO = "-v -x -n -a -race -tags= -p= -trimpath"
_GO_TEST = (
    f"{_GO} -run= -count= -short -cover -timeout= -bench= -benchmem -benchtime= -failfast -parallel= -cpu= -json -list= -skip= "
    "-shuffle= -covermode="
)
_SCRIPTS = Usage("-s --silent --if-present --workspaces", "script")
_PACKAGES = Usage("-g -l -a --all --json --long --depth= --prod --dev --parseable", "name")
_NODE_PACKAGES = {
    **dict.fromkeys(("test", "t", "tst", "run", "run-script"), _SCRIPTS),
    **dict.fromkeys(("list", "ls", "ll", "outdated", "view", "info", "show", "why", "explain", "search"), _PACKAGES),
    "audit": Usage("--json", "none"),
    **dict.fromkeys(("root", "prefix", "whoami", "ping"), _NONE),
}
_PYTEST = Usage(
    "-q -v -x -s -l -h -k= -m= -n= -r= --quiet --verbose --exitfirst --maxfail= --tb= --lf --ff --nf --sw --last-failed --failed-first "
    "--new-first --stepwise --durations= --durations-min= --co --collect-only --no-header --no-summary --show-capture= --capture= "
    "--color= --disable-warnings --strict-markers --setup-show --ignore= --ignore-glob= --deselect= --timeout= --no-cov --cov? "
    "--cov-report=term --cov-report=term-missing --version --markers --fixtures --help --showlocals",
    "inside",
)
_MYPY = Usage(
    "-v -p= -m= --strict --package= --module= --ignore-missing-imports --show-error-codes --show-error-context --pretty "
    "--no-incremental --follow-imports= --python-version= --platform= --exclude= --explicit-package-bases --namespace-packages "
    "--check-untyped-defs --disallow-untyped-defs --no-error-summary --no-color-output --warn-unused-ignores --warn-unreachable "
    "--disable-error-code= --enable-error-code= --version",
    "inside",
)
_RUFF = Usage(
    "-h --version",
    "none",
    {
        "check": Usage(
            "-q -v -e -s --fix --no-fix --unsafe-fixes --diff --select= --ignore= --extend-select= --extend-ignore= --statistics "
            "--no-cache --show-fixes --show-files --exclude= --extend-exclude= --output-format= --line-length= --preview --exit-zero "
            "--target-version= --quiet --verbose",
            "inside",
        ),
        "format": Usage(
            "-q -v --check --diff --line-length= --exclude= --preview --no-cache --target-version= --quiet", "inside"
        ),
        "rule": Usage("--output-format=", "name"),
        "version": _NONE,
    },
)
_BLACK = Usage(
    "-q -v -l= -t= --check --diff --fast --line-length= --target-version= --quiet --verbose --version", "inside"
)
_FLAKE8 = Usage(
    "-v -q --max-line-length= --select= --ignore= --extend-ignore= --statistics --count --exclude= --version", "inside"
)
_UNITTEST = Usage("-v -q -f -b -k= --verbose --quiet --failfast --buffer --locals", "name")
_PIP = Usage(
    "-V --version",
    "none",
    {
        "list": Usage("-o -u --outdated --uptodate --format= --not-required", "none"),
        "show": Usage("-f --files", "name"),
        "freeze": Usage("-l --local --all", "none"),
        "check": _NONE,
    },
)
_PYTHON = Usage(
    "",
    "none",
    {
        **dict.fromkeys(("-V", "--version"), _NONE),
        "-m": Usage(
            "",
            "none",
            {
                "pytest": _PYTEST,
                "mypy": _MYPY,
                "ruff": _RUFF,
                "black": _BLACK,
                "flake8": _FLAKE8,
                "unittest": _UNITTEST,
                "pip": _PIP,
            },
            least=1,
        ),
    },
    least=1,
)

_GH_LIST = "-R= -L= -s= -l= -a= -A= -S= -B= -H= --repo= --limit= --state= --label= --assignee= --author= --search= --base= --head= --json= "
_GH_VIEW = Usage(
    "-R= -c -v --repo= --comments --json= --log --log-failed --job= --verbose --exit-status --name-only --patch --required"
)
_GH_READ = {"list": Usage(_GH_LIST, "none"), "view": _GH_VIEW, "status": _GH_VIEW, "diff": _GH_VIEW, "checks": _GH_VIEW}
_DOCKER_PS = Usage("-a -q -l -s -n= -f= --all --quiet --latest --size --last= --filter= --format= --no-trunc", "none")
_DOCKER_LOGS = Usage("-f -t -n= --follow --timestamps --tail= --since= --until= --details --no-color --no-log-prefix")
_DOCKER_INSPECT = Usage("-f= -s --format= --size --type=")
_DOCKER_IMAGES = Usage("-a -q -f= --all --quiet --filter= --format= --digests --no-trunc")
_DOCKER = {
    "ps": _DOCKER_PS,
    "logs": _DOCKER_LOGS,
    "images": _DOCKER_IMAGES,
    "inspect": _DOCKER_INSPECT,
    "history": Usage("-q -H --quiet --human --no-trunc --format="),
    **dict.fromkeys(("port", "diff"), Usage()),
    **dict.fromkeys(("version", "info"), Usage("-f= --format=", "none")),
    "stats": Usage("-a --all --no-stream --no-trunc --format="),
    "container": Usage("", "none", {"ls": _DOCKER_PS, "logs": _DOCKER_LOGS, "inspect": _DOCKER_INSPECT}),
    "image": Usage("", "none", {"ls": _DOCKER_IMAGES, "inspect": _DOCKER_INSPECT}),
    **dict.fromkeys(("volume", "network"), Usage("", "none", {"ls": _DOCKER_IMAGES, "inspect": _DOCKER_INSPECT})),
    "compose": Usage(
        "",
        "none",
        {"ps": Usage("-a -q --all --quiet --services --status=", "any"), "logs": _DOCKER_LOGS, "images": Usage("-q")},
    ),
}
_KUBECTL_READ = Usage(
    "-n= -A -l= -o= -w -f -p -c= --namespace= --all-namespaces --selector= --output= "
    "--watch --tail= --since= --follow --previous --container= --show-labels --sort-by="
)

PROGRAMS: Mapping[str, Usage] = {
    # These have no option that runs a program or writes a file.
    **dict.fromkeys(
        ["ls", "cat", "head", "tail", "wc", "cut", "grep", "egrep", "fgrep", "nl", "tac", "rev", "tr", "paste", "comm", "join", "fold", "fmt", "expand", "column", "cmp", "diff", "md5sum", "sha1sum", "sha256sum", "sha512sum", "cksum", "base64", "basename", "dirname", "realpath", "readlink", "stat", "du", "df", "pwd", "whoami", "id", "uname", "nproc", "arch", "true", "false", ":", "seq", "sleep", "uptime", "free", "od", "strings", "which", "type", "echo", "groups", "tty"],
        _ANY,
    ),
    "sort": Usage(
        "-n -r -u -k= -t= -f -b -d -g -h -i -M -V -R -s -z -c -C -m --reverse --unique --key= --field-separator= --numeric-sort "
        "--human-numeric-sort --general-numeric-sort --version-sort --month-sort --ignore-case --ignore-leading-blanks --check? --stable "
        "--zero-terminated --merge --parallel="
    ),
    "ps": Usage(
        "-e -f -A -p= -o= -C= --forest", "none", {"aux": Usage("-p=", "none")}
    ),  # its operand `e` shows environments
    "uniq": Usage("-c -d -u -i -D -z -f= -s= -w= --count --repeated --unique --ignore-case", most=1),
    "date": Usage("-u -R -I? -d= -r= --utc --date= --reference= --iso-8601? --rfc-3339=", "date"),
    "file": Usage("-b -i -L -h -k -0 --brief --mime --mime-type --mime-encoding --dereference"),
    **dict.fromkeys(
        ("sed", "gsed"),
        Usage(
            "-n -r -E -s -u -z -e= --quiet --silent --regexp-extended --expression= --separate --null-data --unbuffered --posix --sandbox "
            "--debug --version",
            "sed",
        ),
    ),
    "jq": Usage(
        "-r -c -n -s -S -e -a -j -M -C -R --raw-output --compact-output --null-input --slurp --sort-keys --exit-status --ascii-output "
        "--join-output --monochrome-output --color-output --tab --indent= --args --jsonargs --raw-input --arg== --argjson== --slurpfile== "
        "--rawfile==",
        "jq",
    ),
    "tree": Usage(
        "-a -d -f -s -h -D -C -F -i -p -J -L= -I= -P= --du --dirsfirst --gitignore --noreport --prune --charset="
    ),
    "find": Usage(
        "-H -L -P -name= -iname= -path= -ipath= -wholename= -iwholename= -regex= -iregex= -regextype= -type= -xtype= -size= -mtime= "
        "-mmin= -atime= -amin= -ctime= -cmin= -newer= -newermt= -perm= -user= -group= -uid= -gid= -links= -inum= -samefile= -empty "
        "-maxdepth= -mindepth= -not -o -or -a -and -print -print0 -printf= -ls -prune -quit -follow -xdev -mount -depth -daystart -true "
        "-false -readable -writable -executable -nouser -nogroup -noleaf",
        single_dash=True,
    ),
    **dict.fromkeys(
        ("fd", "fdfind"),
        Usage(
            "-e= -t= -d= -E= -H -I -a -g -p -u -s -i -F -L -0 -1 --extension= --type= --max-depth= --exclude= --hidden --no-ignore"
        ),
    ),
    "rg": Usage(
        "-n -N -i -l -c -v -w -x -o -S -s -F -P -u -U -H -h -I -p -L -0 -. -e= -f= -g= -t= -T= -A= -B= -C= -m= -r= -d= --glob= --iglob= "
        "--type= --type-not= --type-list --files --hidden --no-ignore --no-ignore-vcs --count --count-matches --files-with-matches "
        "--files-without-match --line-number --no-line-number --ignore-case --smart-case --case-sensitive --fixed-strings --invert-match "
        "--word-regexp --line-regexp --multiline --multiline-dotall --pcre2 --context= --after-context= --before-context= --max-count= "
        "--max-depth= --max-columns= --heading --no-heading --color= --json --sort= --sortr= --no-filename --with-filename --only-matching "
        "--stats --trim --vimgrep --column --replace= --regexp= --no-messages --no-config"
    ),
    "mkdir": Usage("-p -v -m= --parents --verbose --mode=", "inside"),
    "touch": Usage("-a -c -m -d= -t= --no-create --date=", "inside"),
    # Builtins of the shell; most others assign variables, evaluate their arguments or run them.
    "cd": Usage("-L -P", "inside", least=1, most=1),
    "printf": Usage("", "format"),
    **dict.fromkeys(
        ("test", "["),
        Usage(
            "-a -b -c -d -e -f -g -h -k -p -r -s -t -u -w -x -z -n -o -G -L -N -O -S -eq -ne -lt -le -gt -ge -nt -ot -ef -#",
            single_dash=True,
        ),
    ),
    "read": Usage("-r -s -t= -n= -d= -p=", "variable"),
    "unset": Usage("-v", "variable"),
    **dict.fromkeys(("export", "declare", "typeset", "readonly"), Usage("", "setting")),
    **dict.fromkeys(("wait", "times", "jobs"), _NONE),
    **dict.fromkeys(("exit", "return"), Usage("-#", "name")),
    # Version control, builds, tests.
    "git": Usage(
        "-P --no-pager --no-optional-locks --literal-pathspecs --version -c! -C! --git-dir! --work-tree!", "none", _GIT
    ),
    "gh": Usage(
        "--version",
        "none",
        {
            **{name: Usage("", "none", _GH_READ) for name in ("pr", "issue", "repo", "run", "release", "workflow")},
            "auth": Usage("", "none", {"status": _NONE}),
        },
    ),
    "pytest": _PYTEST,
    "mypy": _MYPY,
    "ruff": _RUFF,
    "black": _BLACK,
    "flake8": _FLAKE8,
    **dict.fromkeys(("pip", "pip3"), _PIP),
    **dict.fromkeys(("python", "python3"), _PYTHON),
    "node": Usage("", "none", dict.fromkeys(("-v", "--version"), _NONE), least=1),
    **dict.fromkeys(("npm", "pnpm", "yarn"), Usage("-v -s --version --silent", "none", _NODE_PACKAGES)),
    "tsc": Usage("-v --version --noEmit --pretty --strict --listFiles --showConfig", "none"),
    "eslint": Usage("-v --fix --quiet --ext= --max-warnings= --no-color --version", "inside"),
    "prettier": Usage("-c -l -w --check --list-different --write --version", "inside"),
    "cargo": Usage(
        "-V -q --version --quiet",
        "none",
        {
            **dict.fromkeys(("build", "b", "check", "c", "doc", "d"), _CARGO_BUILD),
            **dict.fromkeys(("test", "t", "bench"), _CARGO_TEST),
            "clippy": Usage(f"{_CARGO} --no-deps", "none", {"--": Usage("-D= -W= -A= -F=", "none")}),
            "fmt": Usage("-q -v --all --check", "none", {"--": Usage("--check", "none")}),
            "tree": Usage(f"{_CARGO} -i= -d -e= --depth= --invert= --duplicates --edges=", "none"),
            "metadata": Usage("--no-deps --offline --locked --format-version=", "none"),
            "version": _NONE,
        },
    ),
    "go": Usage(
        "",
        "none",
        {
            **dict.fromkeys(("build", "vet"), Usage(_GO, "inside", single_dash=True)),
            "test": Usage(_GO_TEST, "inside", single_dash=True),
            "fmt": Usage("-n -x", "inside", single_dash=True),
            "list": Usage("-f= -m -json -deps -test -e -u -versions", "inside", single_dash=True),
            "doc": Usage("-all -u -src -short -c", "inside", single_dash=True),
            "env": Usage("-json", "name", single_dash=True),
            "mod": Usage(
                "", "none", dict.fromkeys(("tidy", "verify", "graph", "why"), Usage("-v -m", "name", single_dash=True))
            ),
            "version": _NONE,
        },
    ),
    **dict.fromkeys(
        ("make", "gmake"),
        Usage(
            "-k -s -n -B -i -j? --dry-run --just-print --silent --quiet --keep-going --jobs? --always-make --version",
            "name",
        ),
    ),
    "docker": Usage("-v --version", "none", _DOCKER),
    "kubectl": Usage(
        "-n= --namespace=",
        "none",
        {**dict.fromkeys(("get", "describe", "logs", "top"), _KUBECTL_READ), "version": Usage("--client")},
    ),
    # Programs that run the command in their arguments.
    "timeout": Usage("-k= -s= -v --kill-after= --signal= --foreground --preserve-status --verbose", runs=1),
    "time": Usage("-p", runs=0),
    "nice": Usage("-n= -# --adjustment=", runs=0),
    "nohup": Usage(runs=0),
    "stdbuf": Usage("-i= -o= -e= --input= --output= --error=", runs=0),
    "env": Usage("-i -u= --ignore-environment --unset=", runs=0, assigns=True),
    "xargs": Usage(
        "-0 -r -t -n= -P= -L= -I= -d= -a= --null --no-run-if-empty --verbose --max-args= --max-procs= --delimiter= --arg-file=",
        runs=0,
        appends=True,
    ),
    "command": Usage("", "none", {"-v": Usage(), "-V": Usage()}, runs=0),
    "builtin": Usage(runs=0),
    "exec": Usage("-c -l", runs=0),
    "setsid": Usage("-w -c -f --wait --ctty --fork", runs=0),
    "ionice": Usage("-c= -n= -t --class= --classdata= --ignore", runs=0),
    "flock": Usage(
        "-n -s -x -e -w= -u --nonblock --nb --shared --exclusive --wait= --timeout= --unlock", runs=1, named=True
    ),
    "sudo": Usage("-n -k -H -S", runs=0, named=True, assigns=True),
    "doas": Usage("-n", runs=0, named=True),
    "uv": Usage(
        "-q --version --quiet --offline",
        "none",
        {"run": Usage("-q --frozen --locked --offline --no-sync", runs=0, named=True), "pip": _PIP, "tree": _NONE},
    ),
    "poetry": Usage("-q --version", "none", {"run": Usage(runs=0, named=True), "show": Usage("-t --tree", "name")}),
    "npx": Usage("--no --no-install", runs=0, named=True),
}
