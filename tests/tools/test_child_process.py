"""Child processes under both event loops."""

import asyncio
import sys

import pytest
import uvloop

from fcshim.tools.child_process import start_child


def python(program):
    return (sys.executable, "-S", "-c", program)


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request):
    """Return a function that runs a coroutine in an event loop of this kind."""

    def run(coroutine):
        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(coroutine)

    return run


async def outcome(program, data=b""):
    child = await start_child(python(program))
    child.process.stdin.write(data)
    child.process.stdin.close()
    async with asyncio.timeout(60):
        output = await child.process.stdout.read()
    ended = await child.wait_exit(60)
    child.close()
    return output, ended, child.process.returncode


def test_it_reads_writes_and_ends(run):
    program = "import sys; print(sys.stdin.read().upper(), end=''); sys.exit(3)"

    assert (b"HELLO", True, 3) == run(outcome(program, b"hello"))


def test_its_output_ends_even_while_its_child_holds_the_pipe(run):
    program = "import subprocess; print('begun', flush=True); subprocess.Popen(['sleep', '3'])"
    output, ended, code = run(outcome(program))

    assert (b"begun\n", True, 0) == (output, ended, code)


def test_it_leads_a_group_of_its_own(run):
    program = "import os; print(os.getpid() == os.getpgid(0) == os.getsid(0))"

    assert b"True\n" == run(outcome(program))[0]


def test_a_failed_start_raises(run):
    with pytest.raises(FileNotFoundError):
        run(start_child(("/there/is/no/such/program",)))


def test_waiting_has_a_limit(run):
    async def wait():
        child = await start_child(python("import time; time.sleep(60)"))
        ended = await child.wait_exit(0.05)
        child.process.kill()
        await child.wait_exit(60)
        child.close()
        return ended

    assert not run(wait())
