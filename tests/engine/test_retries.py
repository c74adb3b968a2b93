"""Retries with a real engine and a trained model, on commands that it often gets wrong."""

from tests.engine.llama_server import LlamaServer
from tests.engine.odd_values import command, count_right

COMMANDS = [command(number) for number in range(60)]


async def test_retries_halve_the_errors_of_buffered_and_streamed_replies(trained_server: LlamaServer) -> None:
    """In a stream, a retry continues the call after what the client has."""
    unaided = len(COMMANDS) - await count_right(trained_server.url, COMMANDS, max_retries=0)
    left = [
        len(COMMANDS) - await count_right(trained_server.url, COMMANDS, streamed=streamed) for streamed in (False, True)
    ]

    assert unaided >= 6
    assert 2 * max(left) <= unaided
