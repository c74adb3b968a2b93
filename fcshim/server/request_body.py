"""Splits the bodies of requests beside the event loop.

Rule: the interpreter's lock is never held for long: a body that may have very many values is split in a process of its
own, which takes a tenth of a second more, one at a time.
"""

import contextlib
import functools
import subprocess
import sys

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from fcshim.codecs import body_fields
from fcshim.codecs.body_fields import BodyFields, FieldRules, InvalidBodyError
from fcshim.dispatch import run_off_loop
from fcshim.errors import RequestError
from fcshim.server import split_worker

_limiter: RunVar[CapacityLimiter] = RunVar("fcshim_body_process")


async def split_body(body: bytes, rules: FieldRules) -> BodyFields:
    """Split a request's body into its fields. Raises `RequestError`."""
    try:
        if not await run_off_loop(len(body), functools.partial(body_fields.is_dense, body)):
            return await run_off_loop(len(body), functools.partial(body_fields.split_fields, body, rules))
        limiter = _limiter.get(None)
        if limiter is None:
            limiter = CapacityLimiter(1)
            _limiter.set(limiter)
        return await to_thread.run_sync(_split_in_process, body, rules, limiter=limiter)
    except InvalidBodyError as error:
        raise RequestError(error.message, param=error.field) from None


def _split_in_process(body: bytes, rules: FieldRules) -> BodyFields:
    """Split a body in a process. Raises `InvalidBodyError`, and `RequestError` if the process fails."""
    command = [sys.executable, "-P", split_worker.__file__, body_fields.__file__]
    pipe = subprocess.PIPE
    try:
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as process:  # noqa: S603 - our own file
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
                    stdin.writelines(body_fields.write_input(body, rules))
                output = process.stdout.read()
            finally:
                process.kill()
        return body_fields.read_output(output)
    except (OSError, ValueError) as error:
        raise RequestError("the request body has too many values to be checked", status=413) from error
