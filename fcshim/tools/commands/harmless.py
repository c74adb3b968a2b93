"""The programs, subcommands, options and operands that are known as harmless: one row for each program.

Rule: a use is harmless if it runs no program and loads no code that its words name, writes no file outside its purpose,
and neither publishes nor discards anything. Code of the project (tests, recipes, hooks) runs as the project has it.
What no row names is asked about.
"""

from collections.abc import Mapping

import msgspec


class ProgramUsage(msgspec.Struct, frozen=True):
    """What a program, or a subcommand of it, may be given."""

    options: str = ""
    """`-a` has no value, `-n=` one, `--arg==` two, `--color?` perhaps one, attached; `-#` is a number; `--report=term`
    has that value alone; `-c!` has one, and is harmless only where a rule spells it out; `*` is every option."""
    operands: str = "any"
    """A key of `usage.OPERANDS`."""
    subcommands: Mapping[str, "ProgramUsage"] = {}
    """What follows one of the words in a key has a row of its own."""
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


VARIABLES = """
CI NO_COLOR FORCE_COLOR CLICOLOR COLUMNS TZ LANG LC_ALL NODE_ENV RUST_BACKTRACE PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE
"""
"""Variables that decide neither which programs run nor which files they load."""

INERT = """
cp mv rm ln mkdir rmdir touch chmod chown chgrp tee dd truncate kill pkill killall mktemp unlink gzip gunzip bzip2 xz
unzip [ [[ printf shift umask ulimit exit return break continue for case select in local
"""
"""Programs that run no other one, whatever their arguments are: a deny rule does not ask about these."""

_READERS = (
    "ls cat head tail wc cut grep egrep fgrep nl tac rev tr paste comm join fold fmt expand column cmp diff md5sum "
    "sha1sum sha256sum sha512sum cksum base64 basename dirname realpath readlink stat du df pwd whoami id uname "
    "nproc arch true false : seq sleep uptime free od which type echo groups tty"
)
"""They have no option that runs a program or writes a file."""

GENERAL: Mapping[str, ProgramUsage] = {
    _READERS: ProgramUsage("*"),
    "sort": ProgramUsage(
        "-n -r -u -k= -t= -f -b -d -g -h -i -M -V -R -s -z -c -C -m --reverse --unique --key= --field-separator= "
        "--numeric-sort --human-numeric-sort --general-numeric-sort --version-sort --month-sort --ignore-case "
        "--ignore-leading-blanks --check? --stable --zero-terminated --merge --parallel="
    ),
    # Its operand `e` would show environments.
    "ps": ProgramUsage("-e -f -A -p= -o= -C= --forest", "none", {"aux": ProgramUsage("-p=", "none")}),
    "uniq": ProgramUsage("-c -d -u -i -D -z -f= -s= -w= --count --repeated --unique --ignore-case", most=1),
    "date": ProgramUsage("-u -R -I? -d= -r= --utc --date= --reference= --iso-8601? --rfc-3339=", "date"),
    "file": ProgramUsage("-b -i -L -h -k -0 --brief --mime --mime-type --mime-encoding --dereference"),
    "sed gsed": ProgramUsage(
        "-n -r -E -s -u -z -e= --quiet --silent --regexp-extended --expression= --separate --null-data "
        "--unbuffered --posix --sandbox --debug --version",
        "sed",
    ),
    "awk gawk mawk": ProgramUsage("-F= -v=", "awk", least=1),
    "jq": ProgramUsage(
        "-r -c -n -s -S -e -a -j -M -C -R --raw-output --compact-output --null-input --slurp --sort-keys "
        "--exit-status --ascii-output --join-output --monochrome-output --color-output --tab --indent= --args "
        "--jsonargs --raw-input --arg== --argjson== --slurpfile== --rawfile==",
        "jq",
    ),
    "tree": ProgramUsage(
        "-a -d -f -s -h -D -C -F -i -p -J -L= -I= -P= --du --dirsfirst --gitignore --noreport --prune --charset="
    ),
    "find": ProgramUsage(
        "-H -L -P -name= -iname= -path= -ipath= -wholename= -iwholename= -regex= -iregex= -regextype= -type= "
        "-xtype= -size= -mtime= -mmin= -atime= -amin= -ctime= -cmin= -newer= -newermt= -perm= -user= -group= -uid= "
        "-gid= -links= -inum= -samefile= -empty -maxdepth= -mindepth= -not -o -or -a -and -print -print0 -printf= "
        "-ls -prune -quit -follow -xdev -mount -depth -daystart -true -false -readable -writable -executable "
        "-nouser -nogroup -noleaf",
        single_dash=True,
    ),
    "fd fdfind": ProgramUsage(
        "-e= -t= -d= -E= -H -I -a -g -p -u -s -i -F -L -0 -1 --extension= --type= --max-depth= --exclude= "
        "--hidden --no-ignore"
    ),
    "rg": ProgramUsage(
        "-n -N -i -l -c -v -w -x -o -S -s -F -P -u -U -H -h -I -p -L -0 -. -e= -f= -g= -t= -T= -A= -B= -C= -m= -r= "
        "-d= --glob= --iglob= --type= --type-not= --type-list --files --hidden --no-ignore --no-ignore-vcs --count "
        "--count-matches --files-with-matches --files-without-match --line-number --no-line-number --ignore-case "
        "--smart-case --case-sensitive --fixed-strings --invert-match --word-regexp --line-regexp --multiline "
        "--multiline-dotall --pcre2 --context= --after-context= --before-context= --max-count= --max-depth= "
        "--max-columns= --heading --no-heading --color= --json --sort= --sortr= --no-filename --with-filename "
        "--only-matching --stats --trim --vimgrep --column --replace= --regexp= --no-messages --no-config"
    ),
    "mkdir": ProgramUsage("-p -v -m= --parents --verbose --mode=", "inside"),
    "touch": ProgramUsage("-a -c -m -d= -t= --no-create --date=", "inside"),
    # Builtins of the shell; most others assign variables, evaluate their arguments or run them.
    "cd": ProgramUsage("-L -P", "inside", least=1, most=1),
    "printf": ProgramUsage("", "format"),
    "test [": ProgramUsage(
        "-a -b -c -d -e -f -g -h -k -p -r -s -t -u -w -x -z -n -o -G -L -N -O -S -eq -ne -lt -le -gt -ge -nt "
        "-ot -ef -#",
        single_dash=True,
    ),
    "read": ProgramUsage("-r -s -t= -n= -d= -p=", "variable"),
    "unset": ProgramUsage("-v", "variable"),
    "export declare typeset readonly": ProgramUsage("", "setting"),
    "wait times jobs": ProgramUsage(operands="none"),
    "exit return": ProgramUsage("-#", "name"),
    # Programs that run the command in their arguments.
    "timeout": ProgramUsage("-k= -s= -v --kill-after= --signal= --foreground --preserve-status --verbose", runs=1),
    "time": ProgramUsage("-p", runs=0),
    "nice": ProgramUsage("-n= -# --adjustment=", runs=0),
    "nohup": ProgramUsage(runs=0),
    "stdbuf": ProgramUsage("-i= -o= -e= --input= --output= --error=", runs=0),
    "env": ProgramUsage("-i -u= --ignore-environment --unset=", runs=0, assigns=True),
    "xargs": ProgramUsage(
        "-0 -r -t -n= -P= -L= -I= -d= -a= --null --no-run-if-empty --verbose --max-args= --max-procs= --delimiter= "
        "--arg-file=",
        runs=0,
        appends=True,
    ),
    "command": ProgramUsage("", "none", {"-v": ProgramUsage(), "-V": ProgramUsage()}, runs=0),
    "builtin": ProgramUsage(runs=0),
    "exec": ProgramUsage("-c -l", runs=0),
    "setsid": ProgramUsage("-w -c -f --wait --ctty --fork", runs=0),
    "ionice": ProgramUsage("-c= -n= -t --class= --classdata= --ignore", runs=0),
    "flock": ProgramUsage(
        "-n -s -x -e -w= -u --nonblock --nb --shared --exclusive --wait= --timeout= --unlock", runs=1, named=True
    ),
    "sudo": ProgramUsage("-n -k -H -S", runs=0, named=True, assigns=True),
    "doas": ProgramUsage("-n", runs=0, named=True),
}
"""Programs for files and text, builtins of the shell, and programs that run others."""
