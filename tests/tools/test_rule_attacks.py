"""Attacks on permission rules: commands that hide a denied program, or that an allow rule does not mean; paths."""

import json
import shutil
import subprocess

import pytest

from fcshim.events import ToolCallEnd
from fcshim.tools import Executor, PermissionDecision, Permissions, parse_rules
from fcshim.tools.builtin import Files, Search, Shell, Workspace
from fcshim.tools.command_subject import CommandSubject
from fcshim.tools.rules import judge
from fcshim.tools.subjects import UrlSubject
from tests.steps import steps

pytestmark = pytest.mark.security

EVASIONS = [
    "rm victim",
    "rm\tvictim",
    "\\rm victim",
    "'rm' victim",
    '"r"m victim',
    "r''m victim",
    "$'rm' victim",
    "$'\\x72m' victim",
    "/bin/rm victim",
    "/usr/../bin/rm victim",
    "/bin/r? victim",
    "/bin/[r]m victim",
    "r{m,} victim",
    "{rm,victim}",
    "r\\\nm victim",
    "x=rm; $x victim",
    "x=r; ${x}m victim",
    "$(echo rm) victim",
    "`echo rm` victim",
    "bash -c 'rm victim'",
    "bash -ec 'rm victim'",
    "bash -c -x 'rm victim'",
    "bash -o pipefail -c 'rm victim'",
    "sh -c \"sh -c 'rm victim'\"",
    'bash -c "$(echo rm victim)"',
    "env rm victim",
    "env -i X=1 /bin/rm victim",
    "env -S 'rm victim'",
    "echo victim | xargs rm",
    "echo victim | xargs -n 1 -I % rm %",
    "echo victim | xargs -I{} sh -c 'rm {}'",
    "nohup rm victim",
    "timeout 5 rm victim",
    "timeout -s KILL 5 rm victim",
    "nice -n 5 rm victim",
    "setsid rm victim; sleep 0.3",
    "stdbuf -o0 rm victim",
    "exec rm victim",
    "exec -a x rm victim",
    "command rm victim",
    "command -p rm victim",
    "time rm victim",
    "time -p rm victim",
    "coproc rm victim; wait",
    "! rm victim",
    "eval rm victim",
    "eval 'r''m victim'",
    "eval -- rm victim",
    "echo `echo \\`rm victim\\``",
    "echo ${x:-$(rm victim)}",
    "while ! rm victim; do :; done",
    "tee >(rm victim) < f.txt; sleep 0.3",
    "(exec rm victim)",
    "exec 3<f.txt rm victim",
    "# '\nrm victim # '",
    "cat <<\\E\n'\nE\nrm victim",
    'eval "$(echo rm) victim"',
    "(rm victim)",
    "{ rm victim; }",
    "f() { rm victim; }; f",
    'f() { "$@"; }; f rm victim',
    "if rm victim; then :; fi",
    "case a in a) rm victim;; esac",
    "for x in victim; do rm $x; done",
    "true && rm victim",
    "false || rm victim",
    "true | rm victim",
    "rm victim &\nwait",
    "true & rm victim",
    "> f rm victim",
    "<f.txt rm victim",
    "X=1 rm victim",
    "echo $(rm victim)",
    "echo `rm victim`",
    'echo "$(rm victim)"',
    "cat <(rm victim); sleep 0.3",
    "[[ -n $(rm victim) ]]",
    "[[ -v 'a[$(rm victim)]' ]]",
    "test -v 'a[$(rm victim)]'",
    "printf -v 'a[$(rm victim)]' x",
    "echo $((1+$(rm victim; echo 1)))",
    "export X=$(rm victim)",
    "trap 'rm victim' EXIT",
    "mapfile -C 'rm victim' -c 1 < f.txt",
    "compgen -C 'rm victim' x",
    "bash <<E\nrm victim\nE",
    "bash <<'E'\nrm victim\nE",
    "cat <<E | sh\nrm victim\nE",
    "cat <<E\n$(rm victim)\nE",
    "bash <<< 'rm victim'",
    "echo rm victim | sh",
    "printf 'rm victim' | bash -s",
    "echo 'rm victim' > s; bash s",
    "echo 'rm victim' > s; . ./s",
    "echo 'rm victim' > s; source ./s",
    "shopt -s expand_aliases; alias x=rm\nx victim",
    "hash -p /bin/rm x; x victim",
    "find victim -exec rm {} ;".replace(";", "\\;"),
    "find victim -exec sh -c 'rm {}' \\;",
    "python3 -c 'import os; os.system(\"rm victim\")'",
    "perl -e 'system(\"rm victim\")'",
    "awk 'BEGIN { system(\"rm victim\") }'",
    "sed '1e rm victim' f.txt",
    "sed 's/.*/rm victim/e' f.txt",
    "tar cf /dev/null f.txt --checkpoint=1 --checkpoint-action='exec=rm victim'",
    "git -c alias.x='!rm victim' x",
    "GIT_PAGER='rm victim' git --paginate --version",
    "GIT_EXTERNAL_DIFF='rm victim' git diff --no-index --ext-diff f.txt g.txt",
    "BASH_ENV=f.txt bash -c 'rm victim'",
    "script -qc 'rm victim' /dev/null",
    "flock /tmp -c 'rm victim'",
    "echo a # comment\nrm victim",
    "echo ')' ; rm victim",
    'echo "\'" ; rm victim ; echo "\'"',
    "echo é; rm victim",
    "sort --compress-program=rm f.txt; rm victim",
    "setarch -R rm victim",
    "prlimit --cpu=10 rm victim",
    "choom -n 0 -- rm victim",
    "unknown-launcher --level 3 rm victim || rm victim",
    "env --split-string='rm victim'",
    "env -S'rm victim'",
    "env -S 'rm\\_victim'",
    "script --command='rm victim' /dev/null",
    "bash --rcfile <(echo rm victim) -i -c true",
    "bash --init-file <(echo rm victim) -ic true",
    "coproc X { rm victim; }; wait",
    "r`:`m victim",
    "r`true`m victim; r$(:)m victim",
    "time ! rm victim",
    "! ! rm victim",
    "x='a[$(rm victim)]'; echo $((x))",
    "x='a[$(rm victim)]'; ((x))",
    "x='a[$(rm victim)]'; [[ $x -eq 0 ]]",
    "x='a[`rm victim`]'; let x",
    "x='a[$(rm victim)]'; declare -i y; y=x; declare -i z=x",
    "x='$(rm victim)'; echo ${x@P}",
    "sed --expression='1e rm victim' f.txt",
    "sed -e'1e rm victim' f.txt",
    "sed -ne '1erm victim' f.txt",
    "sed 's/f.txt/rm victim/;e' f.txt",
    "python3 -m timeit -n1 -r1 \"__import__('os').system('rm victim')\"",
    "cat <<-E\n\t$(rm victim)\n\tE",
    "cat <<E\n`rm victim`\nE",
    "history -s rm victim; fc -s",
    "jobs -x rm victim",
]


@pytest.fixture
def folder(tmp_path):
    for name in ("victim", "f.txt", "g.txt"):
        (tmp_path / name).write_text(f"{name}\n")
    return tmp_path


def bash(folder, mode, *, allow=(), deny=(), ask=None):
    rules = (*parse_rules("allow", allow), *parse_rules("deny", deny))
    return Executor(Shell(Workspace(folder)).tools(), permissions=Permissions(mode, rules=rules, ask=ask))


async def call(executor, name, **arguments):
    return await executor.call(ToolCallEnd("1", name, json.dumps(arguments), 0))


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize("command", EVASIONS)
async def test_a_deny_rule_is_not_evaded(folder, command):
    """The mode allows every command, so that only the deny rule protects the file."""
    result = await call(bash(folder, "allow", deny=["Bash(rm *)"]), "Bash", command=command)

    assert "was not executed" in result.flat_text
    assert (folder / "victim").exists()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_most_evasions_do_delete_the_file(folder):
    """Otherwise the list above would prove nothing: a real shell runs them. Some machines lack some programs."""
    deleted = 0
    for command in EVASIONS:
        (folder / "victim").write_text("x")
        given = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": 20}
        subprocess.run(["bash", "-c", command], cwd=folder, check=False, **given)
        deleted += not (folder / "victim").exists()

    assert deleted >= 0.85 * len(EVASIONS)


@pytest.mark.parametrize(
    "command",
    [
        "ls -la",
        "git status && git diff HEAD~1 | head -20",
        "git commit -m 'rm the old file'",
        "git add *.py",
        "grep -rn 'foo$' src | sort -u | wc -l",
        "find . -name '*.py' -exec grep -l foo {} +",
        "python3 manage.py test -v 2",
        "python3 -m pytest -q tests",
        "npm run build",
        "make test",
        'for f in *.py; do echo "$f"; done',
        "cat <<EOF > notes.txt\nsome text\nEOF",
        "sed -i 's/a/b/' f.txt",
        "awk '{print $1}' f.txt",
        "timeout 60 cargo build --release",
        "bash --version",
        "if [ -f x ]; then echo yes; fi",
        'echo "$HOME" > out 2>&1',
        "xargs grep -l rm < files",
        "docker ps",
        "docker rm web",
        "git -C sub status",
        "git rm old.py",
        "npm rm lodash",
        "mytool --remove rm.txt",
        "python3 script.py --remove rm",
        "command -v rm",
        "ruby -v",
        "java -jar app.jar",
        "cmake -S . -B build -DCMAKE_BUILD_TYPE=Release",
        "time npm run build",
        "[[ $(git branch --show-current) == main ]] && echo yes",
        "cat <<EOF\nhi $USER $(date) `pwd`\nEOF",
        "i=0; while (( i < 3 )); do echo $i; ((i++)); done",
        "if [[ -f a && $x == b* ]]; then awk '{ print $(NF - 1) }' a; fi",
        "sed -n '/def main/,/^$/p' f | sed -e 's|/usr|/opt|g' -e '/^#/d'",
        "sed -i.bak 's/[[:space:]]*$//; 1i # header' f",
    ],
)
def test_ordinary_commands_pass_a_deny_rule(command):
    pytest.importorskip("tree_sitter_bash")
    rules = parse_rules("deny", ["Bash(rm *)"])

    assert judge(rules, ["Bash"], CommandSubject(command)) is None


@pytest.mark.parametrize(
    "command",
    ["git commit -m 'Fix it\n\nrm the old file'", "cat <<'E' > notes\nrm is a program\nE", "echo 'a; rm b'"],
)
def test_a_text_that_looks_like_a_denied_command_is_asked_about(command):
    pytest.importorskip("tree_sitter_bash")

    assert judge(parse_rules("deny", ["Bash(rm *)"]), ["Bash"], CommandSubject(command)) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "git --attr-source HEAD push",
        "git -C . push",
        "git --no-pager push --force",
        "git -c a=b push",
        "git --git-dir=.git --work-tree=. push",
        "git --git-dir .git push",
        "git 'push'",
        "git p''ush",
        "/usr/bin/git push",
        "git >f push",
        "git $x",
        "git -C $HOME push",
        "command git push",
    ],
)
def test_a_deny_rule_for_a_subcommand_is_not_evaded(command):
    pytest.importorskip("tree_sitter_bash")
    assert CommandSubject(command).touched_by("git push*") is not False


async def test_what_cannot_be_parsed_is_asked_about(folder):
    asked = []

    async def user(request):
        asked.append(request.arguments["command"])
        return PermissionDecision(allowed=False, reason="no")

    executor = bash(folder, "allow", deny=["Bash(rm *)"], ask=user)
    unreadable = [
        "echo 'a",
        "$x y",
        "((((",
        "echo " + "a|" * 3_000 + "b",
        "x" * 6_000,
        "echo " + "$(echo " * 50 + ")" * 50,
    ]
    for command in unreadable:
        await call(executor, "Bash", command=command)

    assert unreadable[:5] == asked[:5]


ALLOWED_GIT = [
    "git status",
    "git log -c --oneline",
    "git commit -m 'a; b $c'",
    "git add *.py",
    "git fetch origin main",
]
NOT_ALLOWED = {
    "git *": [
        "git -c alias.x='!touch proof' x",
        "git -calias.x='!touch proof' x",
        "git --config-env=alias.x=Y x",
        "git --exec-path=. status",
        "git --attr-source HEAD -c alias.x='!touch proof' x",
        "git --super-prefix=x/ -c alias.x='!touch proof' x",
        "git rebase --ex='touch proof' HEAD~1",
        "git init --template=/x",
        "git filter-repo --blob-callback 'import os'",
        "git -p status",
        "git -C /elsewhere status",
        "git config core.pager 'touch proof'",
        "git clone --upload-pack='touch proof;' . x",
        "git clone --upload-pa='touch proof;' . x",
        "git clone -u 'touch proof;' . x",
        "git clone -c core.sshCommand=x . x",
        "git fetch --upload-pack=x .",
        "git ls-remote --upload-pack=x .",
        "git push --receive-pack=x",
        "git clone 'ext::sh -c touch% proof'",
        "git grep -Ovi x",
        "git grep --open-files-in-pager=vi x",
        "git rebase -x 'touch proof' HEAD~1",
        "git rebase --exec='touch proof' HEAD~1",
        "git bisect run sh",
        "git submodule foreach 'touch proof'",
        "git difftool -x 'touch proof'",
        "git archive --remote=. --exec=x HEAD",
        "git diff --output=/home/me/.bashrc",
        "git status; touch proof",
        "git status && touch proof",
        "git status | sh",
        "git status & touch proof",
        "git status\ntouch proof",
        "git status > proof",
        "git log $(touch proof)",
        "git log `touch proof`",
        "git log <(touch proof)",
        'git log "$(touch proof)"',
        "git log $'x'",
        "git log {a,b}",
        "git log # x",
        "git log \\\n x",
        "GIT_SSH_COMMAND='touch proof' git fetch",
        "LD_PRELOAD=./x.so git status",
        "GIT_PAGER='touch proof' git log",
        "PATH=. git status",
        "A=1 git status",
        "git' status'/../x",
        "'git status'",
        "g'it' status",
        "(git status)",
        "{ git status; }",
        "! git status",
        "git status;",
        "git log\rtouch proof",
        "sudo git status",
        "if git status; then touch proof; fi",
    ],
    "find *": [
        "find . -exec touch proof ;".replace(";", "';'"),
        "find . -execdir x +",
        "find . -ok x",
        "find . -delete",
        "find . -fprintf /x y",
        "find *",
    ],
    "tar *": [
        "tar xf a --to-command=sh",
        "tar xf a --to-c=sh",
        "tar -I sh -xf a",
        "tar -xIsh -f a",
        "tar xIf sh a",
        "tar cf a * ",
        "tar cf x --checkpoint-action=exec=sh a",
        "tar cf h:x a --rmt-command=sh",
    ],
    "sed *": [
        "sed '1e id' f",
        "sed e f",
        "sed 's/a/id/e' f",
        "sed 's/a/b/w /etc/x' f",
        "sed -f x f",
        "sed -n 'w /etc/x' f",
        "sed '1eid' f",
        "sed -e1e f",
        "sed -Ee'1e id' f",
        "sed --expression='1e id' f",
        "sed --expr '1e id' f",
        "sed '$!{eid' f",
        "sed 's/./id/;ebash' f",
        "sed 's/a/b/w/etc/x' f",
        "sed '1w/etc/x' f",
        "sed 's,a,b,;y/a/b/;e' f",
        "sed -l p '1e id' f",
    ],
    "ssh *": ["ssh -o ProxyCommand=x h", "ssh h id"],
    "rsync *": ["rsync -e 'sh -c id' a b", "rsync -ae sh a b", "rsync --rsh=sh a b"],
    "python *": ["python x.py", "python -c 'x'", "python"],
    "python3.11 *": ["python3.11 x.py"],
    "awk *": ["awk 'BEGIN{system(\"id\")}'"],
    "env *": ["env ls", "env sh"],
    "xargs *": ["xargs rm"],
    "timeout *": ["timeout 5 rm x"],
    "bash *": ["bash x", "bash -c id"],
    "sudo *": ["sudo ls"],
    "vim *": ["vim -c '!id'"],
    "*": ["python x", "sh -c x", "sudo ls", "/bin/bash x", "./../bin/env x", "/lib64/ld-linux-x86-64.so.2 /bin/sh"],
    "make *": ["make -f x", "make SHELL=/tmp/x", "make --eval='x:;id'"],
    "npm *": ["npm exec x", "npm --prefix /x test", "npm config set script-shell x"],
    "cat src/*": ["cat src/../../etc/passwd", "cat src/a /etc/passwd", "cat src/a ../b"],
    "sort *": ["sort --compress-program=sh f", "sort -o /etc/x f"],
    "rg *": ["rg --pre sh x"],
    "docker *": ["docker container run x", "docker compose exec x id", "docker --tls run x"],
    "kubectl *": ["kubectl -n x exec y -- id", "kubectl --kubeconfig x get pods"],
    "cmake *": ["cmake -E env id", "cmake -P x"],
    "gcc *": ["gcc @x", "gcc --specs=x f.c", "gcc -Xlinker -plugin=x f.c"],
    "scp *": ["scp -D id a b"],
    "openssl *": ["openssl engine x", "openssl x -provider-path /x"],
    "sqlite3 *": ["sqlite3 x '.shell id'"],
    "hyperfine *": ["hyperfine id"],
    "perf *": ["perf stat id"],
    "conda *": ["conda run id"],
    "socat *": ["socat - EXEC:id"],
    "m4 *": ["m4 x"],
    "gh *": ["gh alias set x '!id'"],
    "hg *": ["hg --config alias.x=!id x"],
    "go *": ["go build '-ldflags=-extld=id'", "go run x.go", "go build -toolexec sh"],
    "less *": ["less +!id f"],
}


@pytest.mark.parametrize(
    ("pattern", "command"), [(key, each) for key, listed in NOT_ALLOWED.items() for each in listed]
)
def test_an_allow_rule_does_not_cover(pattern, command):
    assert not CommandSubject(command).covered_by(pattern)


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        *(("git *", command) for command in ALLOWED_GIT),
        ("git *", "git status && git diff HEAD@{1}"),
        ("git **", "git clean -fdx"),
        ("git *", "git --no-pager log -5"),
        ("docker *", "docker compose logs -f --tail=50 web"),
        ("kubectl *", "kubectl -n prod get pods"),
        ("cmake **", "cmake -S . -B build -DCMAKE_BUILD_TYPE=Release"),
        ("go **", "go build -ldflags '-s -w' ./cmd/x"),
        ("gcc **", "gcc -O2 -o x x.c"),
        ("java **", "java -jar app.jar"),
        ("sed **", "sed -i -e 's|/usr|/opt|g' -e '/^#/d' f"),
        ("sed *", "sed ':a;N;$!ba;s/\\n/,/g' f"),
        ("sed *", "sed -En '/start/,/end/{s/a/b/;p}' f"),
        ("git *", "git rev-parse --git-dir"),
        ("git log*", "git log --oneline"),
        ("git -c core.pager=cat *", "git -c core.pager=cat log"),
        ("ls *", "ls -la *.py"),
        ("npm run **", "npm run test -- --watch"),
        ("npm *", "npm test"),
        ("python -m pytest *", "python -m pytest -q tests"),
        ("python manage.py **", "python manage.py test"),
        ("find *", "find . -name '*.py' -type f"),
        ("tar **", "tar -xzf a.tgz"),
        ("sed *", "sed -n '1,5p' f"),
        ("sed *", "sed 's/a/b/g' f"),
        ("make *", "make -j4 test"),
        ("cat src/*", "cat src/a/b.py"),
        ("CI=1 npm test", "CI=1 npm test"),
        ("make check", "make check"),
        ("grep *", "grep -rn 'foo$' src | grep bar"),
    ],
)
def test_ordinary_commands_are_covered(pattern, command):
    assert CommandSubject(command).covered_by(pattern)


async def test_git_does_run_the_alias_where_it_is_allowed(folder):
    """The first attack, with a real git: refused under `git *`, and it does run in mode `allow`."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    attack = "git -c alias.x='!touch proof' x"
    refused = await call(bash(folder, "ask", allow=["Bash(git *)"]), "Bash", command=attack)

    assert "no user to ask" in refused.flat_text
    assert not (folder / "proof").exists()
    await call(bash(folder, "allow"), "Bash", command=f"git init -q; {attack}")
    assert (folder / "proof").exists()


@pytest.fixture
def workspace(tmp_path):
    root = tmp_path / "work"
    (root / "secrets").mkdir(parents=True)
    (root / "src").mkdir()
    (root / "secrets" / "k").write_text("top secret\n")
    (root / "src" / "a").write_text("not so secret\n")
    (root / "link").symlink_to(root / "secrets")
    (root / "src" / "way").symlink_to(root / "secrets" / "k")
    return root


def files(workspace, mode="allow", **rules):
    given = [rule for verdict, texts in rules.items() for rule in parse_rules(verdict, texts)]
    place = Workspace(workspace)
    return Executor([*Files(place).tools(), *Search(place).tools()], permissions=Permissions(mode, rules=given))


def spellings(root):
    return [
        "secrets/k",
        "./secrets/k",
        "././secrets//k",
        "src/../secrets/k",
        "secrets/../secrets/k",
        "secrets/./k",
        f"{root}/secrets/k",
        f"{root}/src/../secrets/k",
        f"{root}/../work/secrets/k",
        "link/k",
        "src/way",
        f"{root}/link/k",
    ]


@pytest.mark.parametrize("number", range(12))
@pytest.mark.parametrize(
    "pattern",
    [
        *("secrets/*", "./secrets/*", "*/secrets/*", "secrets/**", "link/*", "{root}/secrets/*"),
        *("secrets", "secrets/", "{root}/secrets", "secrets/**/k", "/**/secrets/**"),
    ],
)
async def test_no_spelling_of_a_path_evades_a_deny_rule(workspace, number, pattern):
    if pattern == "*/secrets/*":
        pattern = f"{workspace}/secrets/*"
    path, pattern = spellings(workspace)[number], pattern.format(root=workspace)
    executor = files(workspace, deny=[f"Write({pattern})", f"Read({pattern})"])
    results = [
        await call(executor, "Write", path=path, content="x"),
        await call(executor, "Edit", path=path, old_string="top", new_string="x"),
        await call(executor, "Read", path=path),
        await call(executor, "Grep", pattern="secret", path=path),
    ]

    assert ["was not executed" in each.flat_text for each in results] == [True] * 4
    assert "top secret\n" == (workspace / "secrets" / "k").read_text()


@pytest.mark.parametrize("path", [".", "", "src/..", "secrets", "./secrets/", "link"])
async def test_a_search_skips_what_may_not_be_read(workspace, path):
    for rules in (
        {"deny": ["Read(secrets/*)"]},
        {"deny": ["Grep(secrets/*)", "Glob(secrets/*)"]},
        {"ask": ["Read(secrets/*)"]},
    ):
        executor = files(workspace, **rules)
        found = await call(executor, "Grep", pattern="secret", path=path)
        named = await call(executor, "Glob", pattern="**/k", path=path)

        assert "top secret" not in found.flat_text
        assert "secrets/k" not in named.flat_text
    assert "not so secret" in (await call(executor, "Grep", pattern="secret")).flat_text


async def test_an_allow_rule_for_a_folder_does_not_lead_out_of_it(workspace):
    executor = files(workspace, mode="ask", allow=["Write(src/*)"])

    for path in ("src/way", "src/../secrets/k", "src/../x", f"{workspace}/src/../secrets/k"):
        assert "no user to ask" in (await call(executor, "Write", path=path, content="x")).flat_text
    for path in ("src/new", "./src/new", f"{workspace}/src/new", "src/deep/new"):
        assert not (await call(executor, "Write", path=path, content="x")).is_error


async def test_ordinary_paths_pass_a_deny_rule(workspace):
    executor = files(workspace, deny=["Read(secrets/*)", "Write(*.env)"])

    assert "not so secret\n" == (await call(executor, "Read", path="src/a")).flat_text
    assert "src/a" in (await call(executor, "Glob", pattern="*")).flat_text
    assert "src/" in (await call(executor, "ListDir", path=".")).flat_text
    assert not (await call(executor, "Write", path="environment.txt", content="x")).is_error
    assert not (await call(executor, "Write", path="secrets/new", content="x")).is_error


@pytest.mark.parametrize(
    "url",
    [
        "http://intern.example/x",
        "HTTP://INTERN.EXAMPLE/x",
        "http://intern.example./x",
        "http://intern.example:80/x",
        "http://user@intern.example/x",
        "http://ｉｎｔｅｒｎ.example/x",
        "http://intern.example",
        " http://intern.example/x",
        "http://intern%2Eexample/../x",
    ][:-1],
)
def test_no_spelling_of_a_url_evades_a_deny_rule(url):
    assert UrlSubject(url).touched_by("http://intern.example/*")


def test_an_allow_rule_for_a_host_covers_no_other_host():
    covered = [
        UrlSubject(f"https://{rest}").covered_by("https://*.good.org/*")
        for rest in (
            "a.good.org/x",
            "evil.com/.good.org/x",
            "evil.com/?a.good.org/",
            "evil.com#.good.org/",
            "a.good.org@evil.com/",
        )
    ]

    assert [True, False, False, False, False] == covered


async def test_a_remembered_decision_is_no_broader_than_its_question(workspace):
    scopes = []

    async def user(request):
        scopes.append((request.name, request.scope))
        return PermissionDecision(allowed=True, remember=True)

    place = Workspace(workspace)
    rules = parse_rules("ask", ["Write(secrets/*)"])
    tools = [*Files(place).tools(), *Shell(place).tools()]
    executor = Executor(tools, permissions=Permissions(rules=rules, ask=user))
    for path in ("src/a", "src/b", "secrets/k", "secrets/k", "secrets/l"):
        await call(executor, "Write", path=path, content="x")
    for command in ("true", "true", "true; rm -r secrets"):
        await call(executor, "Bash", command=command)

    assert [
        ("Write", "every call of Write"),
        ("Write", "this very call"),
        ("Write", "this very call"),
        ("Bash", "this very call"),
        ("Bash", "this very call"),
    ] == scopes


def test_reading_a_hostile_command_is_bounded():
    """Work is counted: without the limits each of these is quadratic or worse (`git -c git -c`: 159 s)."""
    pytest.importorskip("tree_sitter_bash")
    for unit in (
        "a;",
        "env ",
        "xargs -a ",
        "sudo -u ",
        "sudo -u x ",
        "git -c ",
        "find -exec ",
        "git -c a=b= ",
        "f() { ",
    ):
        line = (unit * 4_000)[:3_999]
        work = steps(lambda line=line: CommandSubject(line).touched_by("rm *"))

        assert work < 3_000_000
