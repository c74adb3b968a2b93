"""The rows of `harmless.py` for version control, builds, tests and packages."""

from collections.abc import Mapping

from fcshim.tools.commands.harmless import ProgramUsage

_NONE = ProgramUsage(operands="none")
_ANY = ProgramUsage("*")

_DIFF = (
    "-p -u -s -U= -w -b -M? -C? -S= -G= -R -a -q -W -z -c -m -1 -2 -3 --patch --no-patch --unified? --raw --stat? "
    "--numstat --shortstat --dirstat? --summary --compact-summary --name-only --name-status --color? --no-color "
    "--word-diff? --color-words? --ignore-all-space --ignore-space-change --ignore-space-at-eol "
    "--ignore-blank-lines --find-renames? --find-copies? --no-renames --diff-filter? --pickaxe-regex --pickaxe-all "
    "--minimal --patience --histogram --diff-algorithm? --abbrev? --binary --full-index --relative? --text "
    "--exit-code --quiet --function-context --no-ext-diff --no-textconv --no-prefix --submodule? --cc --check"
)
_LOG = (
    f"{_DIFF} -n= -# -i -E -F -P -L= -g --oneline --graph --decorate? --no-decorate --all --branches? --tags? "
    "--remotes? --max-count? --skip? --since= --after= --until= --before= --author= --committer= --grep= "
    "--all-match --invert-grep --merges --no-merges --first-parent --reverse --follow --pretty? --format? --date? "
    "--date-order --topo-order --author-date-order --abbrev-commit --no-abbrev-commit --left-right --cherry-pick "
    "--cherry --cherry-mark --walk-reflogs --simplify-by-decoration --full-history --no-walk? --source --boundary "
    "--relative-date --parents --children --notes? --no-notes --count"
)
_GIT = {
    "status add rev-parse ls-files ls-tree describe check-ignore cherry count-objects": _ANY,
    "merge-base show-ref": _ANY,
    "diff": ProgramUsage(f"{_DIFF} --cached --staged --merge-base --no-index --ours --theirs --base"),
    "log show rev-list whatchanged": ProgramUsage(_LOG),
    "shortlog": ProgramUsage("-s -n -e --summary --numbered --email --since= --until= --all --no-merges"),
    "blame": ProgramUsage(
        "-L= -w -e -s -l -t -f -n -p -M? -C? --date= --porcelain --line-porcelain --since= --show-email --first-parent"
    ),
    "grep": ProgramUsage(
        "-n -i -w -v -l -L -c -h -H -o -q -a -I -E -G -F -P -p -W -z -r -e= -f= -A= -B= -C= -m= -# --line-number "
        "--ignore-case --word-regexp --invert-match --count --name-only --files-with-matches --files-without-match "
        "--only-matching --extended-regexp --fixed-strings --perl-regexp --color? --no-color --break --heading "
        "--show-function --function-context --max-depth= --recurse-submodules --cached --untracked --no-index --and "
        "--or --not"
    ),
    "cat-file": ProgramUsage("-p -t -s -e"),
    "branch": ProgramUsage(
        "-a -r -v -l --all --remotes --list --verbose --show-current --merged? --no-merged? --contains? "
        "--no-contains? --points-at= --sort= --format= --column? --no-column --color? --no-color"
    ),
    "tag": ProgramUsage(
        "-l -n? -a -m= --list --annotate --message= --sort= --format= --contains? --merged? --points-at="
    ),
    "commit": ProgramUsage(
        "-m= -a -q -v -s -n -F= --message= --all --quiet --verbose --signoff --amend --no-edit --no-verify "
        "--allow-empty --allow-empty-message --file= --author= --date= --dry-run --short --porcelain --fixup= "
        "--squash="
    ),
    "checkout": ProgramUsage("-q --quiet", "none", {"-b": ProgramUsage("-q -t --quiet --track?")}),
    "switch": ProgramUsage("-c= -q -t -d --create= --quiet --track? --detach"),
    "restore": ProgramUsage("-q", "none", {"--staged": ProgramUsage("-q --quiet")}),
    "reset": ProgramUsage("-q --quiet --soft --mixed"),
    "stash": ProgramUsage(
        "-u -q --include-untracked",
        "none",
        {
            "list": ProgramUsage(_LOG),
            "show": ProgramUsage(f"{_DIFF} -u"),
            "push": ProgramUsage("-m= -u -q -k -S --message= --include-untracked --keep-index --staged"),
            "pop apply": ProgramUsage("-q --index --quiet"),
        },
    ),
    "merge": ProgramUsage(
        "-q -m= --ff-only --no-ff --ff --no-edit --abort --continue --squash --quiet --stat --no-stat"
    ),
    "rebase": ProgramUsage("-q --onto= --abort --continue --skip --autostash --quiet"),
    "cherry-pick revert": ProgramUsage("-x -n --no-edit --no-commit --abort --continue --skip --quit"),
    "fetch": ProgramUsage("-p -t -q -v --all --prune --tags --quiet --verbose --dry-run --depth= --unshallow", "name"),
    "pull": ProgramUsage(
        "-q -v -r --rebase? --no-rebase --ff-only --ff --no-ff --quiet --verbose --autostash --prune", "name"
    ),
    "ls-remote": ProgramUsage("-h -t -q --heads --tags --quiet --refs", "name"),
    "remote": ProgramUsage("-v --verbose", "none", {"get-url": ProgramUsage("--all --push")}),
    "reflog": ProgramUsage(_LOG, "none", {"show": ProgramUsage(_LOG)}),
    "worktree": ProgramUsage("", "none", {"list": _ANY}),
    "submodule": ProgramUsage("", "none", {"status": ProgramUsage("--cached --recursive")}),
    "bisect": ProgramUsage("", "none", {"start good bad reset log skip old new": ProgramUsage()}),
    "config": ProgramUsage(
        "--global --local --system --show-origin --show-scope --name-only -z",
        "none",
        {
            "get list -l --list --get --get-all --get-regexp": ProgramUsage(
                "--global --local --system --show-origin --show-scope --name-only --all -z"
            )
        },
    ),
    "version": _NONE,
}

_CARGO = (
    "-q -v -r -p= -F= -j= --quiet --verbose --release --all --workspace --package= --exclude= --all-targets "
    "--all-features --no-default-features --features= --lib --bins --bin= --examples --example= --tests --test= "
    "--benches --bench= --jobs= --profile= --locked --offline --frozen --keep-going --message-format= --color="
)
_CARGO_TEST = ProgramUsage(
    f"{_CARGO} --no-run --no-fail-fast --doc",
    "name",
    {
        "--": ProgramUsage(
            "--nocapture --ignored --include-ignored --exact --show-output --test-threads= --skip= -q", "name"
        )
    },
)
_CARGO_BUILD = ProgramUsage(_CARGO, "none")
_GO = "-v -x -n -a -race -tags= -p= -trimpath"
_GO_TEST = (
    f"{_GO} -run= -count= -short -cover -timeout= -bench= -benchmem -benchtime= -failfast -parallel= -cpu= -json "
    "-list= -skip= -shuffle= -covermode="
)
_SCRIPTS = ProgramUsage("-s --silent --if-present --workspaces", "script")
_PACKAGES = ProgramUsage("-g -l -a --all --json --long --depth= --prod --dev --parseable", "name")
_NODE_PACKAGES = {
    "test t tst run run-script": _SCRIPTS,
    "list ls ll outdated view info show why explain search": _PACKAGES,
    "audit": ProgramUsage("--json", "none"),
    "root prefix whoami ping": _NONE,
}
_PYTEST = ProgramUsage(
    "-q -v -x -s -l -h -k= -m= -n= -r= --quiet --verbose --exitfirst --maxfail= --tb= --lf --ff --nf --sw "
    "--last-failed --failed-first --new-first --stepwise --durations= --durations-min= --co --collect-only "
    "--no-header --no-summary --show-capture= --capture= --color= --disable-warnings --strict-markers --setup-show "
    "--ignore= --ignore-glob= --deselect= --timeout= --no-cov --cov? --cov-report=term --cov-report=term-missing "
    "--version --markers --fixtures --help --showlocals",
    "inside",
)
_MYPY = ProgramUsage(
    "-v -p= -m= --strict --package= --module= --ignore-missing-imports --show-error-codes --show-error-context "
    "--pretty --no-incremental --follow-imports= --python-version= --platform= --exclude= --explicit-package-bases "
    "--namespace-packages --check-untyped-defs --disallow-untyped-defs --no-error-summary --no-color-output "
    "--warn-unused-ignores --warn-unreachable --disable-error-code= --enable-error-code= --version",
    "inside",
)
_RUFF = ProgramUsage(
    "-h --version",
    "none",
    {
        "check": ProgramUsage(
            "-q -v -e -s --fix --no-fix --unsafe-fixes --diff --select= --ignore= --extend-select= --extend-ignore= "
            "--statistics --no-cache --show-fixes --show-files --exclude= --extend-exclude= --output-format= "
            "--line-length= --preview --exit-zero --target-version= --quiet --verbose",
            "inside",
        ),
        "format": ProgramUsage(
            "-q -v --check --diff --line-length= --exclude= --preview --no-cache --target-version= --quiet", "inside"
        ),
        "rule": ProgramUsage("--output-format=", "name"),
        "version": _NONE,
    },
)
_BLACK = ProgramUsage(
    "-q -v -l= -t= --check --diff --fast --line-length= --target-version= --quiet --verbose --version", "inside"
)
_FLAKE8 = ProgramUsage(
    "-v -q --max-line-length= --select= --ignore= --extend-ignore= --statistics --count --exclude= --version", "inside"
)
_UNITTEST = ProgramUsage("-v -q -f -b -k= --verbose --quiet --failfast --buffer --locals", "name")
_PIP = ProgramUsage(
    "-V --version",
    "none",
    {
        "list": ProgramUsage("-o -u --outdated --uptodate --format= --not-required", "none"),
        "show": ProgramUsage("-f --files", "name"),
        "freeze": ProgramUsage("-l --local --all", "none"),
        "check": _NONE,
    },
)
_PYTHON = ProgramUsage(
    "",
    "none",
    {
        "-V --version": _NONE,
        "-m": ProgramUsage(
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

_GH_LIST = (
    "-R= -L= -s= -l= -a= -A= -S= -B= -H= --repo= --limit= --state= --label= --assignee= --author= --search= --base= "
    "--head= --json="
)
_GH_VIEW = ProgramUsage(
    "-R= -c -v --repo= --comments --json= --log --log-failed --job= --verbose --exit-status --name-only --patch "
    "--required"
)
_GH_READ = {
    "list": ProgramUsage(_GH_LIST, "none"),
    "view": _GH_VIEW,
    "status": _GH_VIEW,
    "diff": _GH_VIEW,
    "checks": _GH_VIEW,
}
_DOCKER_PS = ProgramUsage(
    "-a -q -l -s -n= -f= --all --quiet --latest --size --last= --filter= --format= --no-trunc", "none"
)
_DOCKER_LOGS = ProgramUsage(
    "-f -t -n= --follow --timestamps --tail= --since= --until= --details --no-color --no-log-prefix"
)
_DOCKER_INSPECT = ProgramUsage("-f= -s --format= --size --type=")
_DOCKER_IMAGES = ProgramUsage("-a -q -f= --all --quiet --filter= --format= --digests --no-trunc")
_DOCKER = {
    "ps": _DOCKER_PS,
    "logs": _DOCKER_LOGS,
    "images": _DOCKER_IMAGES,
    "inspect": _DOCKER_INSPECT,
    "history": ProgramUsage("-q -H --quiet --human --no-trunc --format="),
    "port diff": ProgramUsage(),
    "version info": ProgramUsage("-f= --format=", "none"),
    "stats": ProgramUsage("-a --all --no-stream --no-trunc --format="),
    "container": ProgramUsage("", "none", {"ls": _DOCKER_PS, "logs": _DOCKER_LOGS, "inspect": _DOCKER_INSPECT}),
    "image": ProgramUsage("", "none", {"ls": _DOCKER_IMAGES, "inspect": _DOCKER_INSPECT}),
    "volume network": ProgramUsage("", "none", {"ls": _DOCKER_IMAGES, "inspect": _DOCKER_INSPECT}),
    "compose": ProgramUsage(
        "",
        "none",
        {
            "ps": ProgramUsage("-a -q --all --quiet --services --status=", "any"),
            "logs": _DOCKER_LOGS,
            "images": ProgramUsage("-q"),
        },
    ),
}
_KUBECTL_READ = ProgramUsage(
    "-n= -A -l= -o= -w -f -p -c= --namespace= --all-namespaces --selector= --output= --watch --tail= --since= "
    "--follow --previous --container= --show-labels --sort-by="
)

DEVELOPMENT: Mapping[str, ProgramUsage] = {
    "git": ProgramUsage(
        "-P --no-pager --no-optional-locks --literal-pathspecs --version -c! -C! --git-dir! --work-tree!", "none", _GIT
    ),
    "gh": ProgramUsage(
        "--version",
        "none",
        {
            "pr issue repo run release workflow": ProgramUsage("", "none", _GH_READ),
            "auth": ProgramUsage("", "none", {"status": _NONE}),
        },
    ),
    "pytest": _PYTEST,
    "mypy": _MYPY,
    "ruff": _RUFF,
    "black": _BLACK,
    "flake8": _FLAKE8,
    "pip pip3": _PIP,
    "python python3": _PYTHON,
    "node": ProgramUsage("", "none", {"-v --version": _NONE}, least=1),
    "npm pnpm yarn": ProgramUsage("-v -s --version --silent", "none", _NODE_PACKAGES),
    "tsc": ProgramUsage("-v --version --noEmit --pretty --strict --listFiles --showConfig", "none"),
    "eslint": ProgramUsage("-v --fix --quiet --ext= --max-warnings= --no-color --version", "inside"),
    "prettier": ProgramUsage("-c -l -w --check --list-different --write --version", "inside"),
    "cargo": ProgramUsage(
        "-V -q --version --quiet",
        "none",
        {
            "build b check c doc d": _CARGO_BUILD,
            "test t bench": _CARGO_TEST,
            "clippy": ProgramUsage(f"{_CARGO} --no-deps", "none", {"--": ProgramUsage("-D= -W= -A= -F=", "none")}),
            "fmt": ProgramUsage("-q -v --all --check", "none", {"--": ProgramUsage("--check", "none")}),
            "tree": ProgramUsage(f"{_CARGO} -i= -d -e= --depth= --invert= --duplicates --edges=", "none"),
            "metadata": ProgramUsage("--no-deps --offline --locked --format-version=", "none"),
            "version": _NONE,
        },
    ),
    "go": ProgramUsage(
        "",
        "none",
        {
            "build vet": ProgramUsage(_GO, "inside", single_dash=True),
            "test": ProgramUsage(_GO_TEST, "inside", single_dash=True),
            "fmt": ProgramUsage("-n -x", "inside", single_dash=True),
            "list": ProgramUsage("-f= -m -json -deps -test -e -u -versions", "inside", single_dash=True),
            "doc": ProgramUsage("-all -u -src -short -c", "inside", single_dash=True),
            "env": ProgramUsage("-json", "name", single_dash=True),
            "mod": ProgramUsage("", "none", {"tidy verify graph why": ProgramUsage("-v -m", "name", single_dash=True)}),
            "version": _NONE,
        },
    ),
    "make gmake": ProgramUsage(
        "-k -s -n -B -i -j? --dry-run --just-print --silent --quiet --keep-going --jobs? --always-make --version",
        "name",
    ),
    "docker": ProgramUsage("-v --version", "none", _DOCKER),
    "kubectl": ProgramUsage(
        "-n= --namespace=",
        "none",
        {"get describe logs top": _KUBECTL_READ, "version": ProgramUsage("--client")},
    ),
    "uv": ProgramUsage(
        "-q --version --quiet --offline",
        "none",
        {
            "run": ProgramUsage("-q --frozen --locked --offline --no-sync", runs=0, named=True),
            "pip": _PIP,
            "tree": _NONE,
        },
    ),
    "poetry": ProgramUsage(
        "-q --version", "none", {"run": ProgramUsage(runs=0, named=True), "show": ProgramUsage("-t --tree", "name")}
    ),
    "npx": ProgramUsage("--no --no-install", runs=0, named=True),
}
