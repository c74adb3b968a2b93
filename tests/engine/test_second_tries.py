"""Second tries with a real engine and a trained model, on commands that it often gets wrong."""

from tests.engine.llama_server import LlamaServer
from tests.engine.odd_values import count_right

COMMANDS = range(60)


async def test_second_tries_halve_the_errors(trained_server: LlamaServer) -> None:
    unaided = len(COMMANDS) - await count_right(trained_server.url, COMMANDS, max_retries=0)
    left = len(COMMANDS) - await count_right(trained_server.url, COMMANDS)

    assert unaided >= 6
    assert 2 * left <= unaided


async def test_streamed_calls_that_break_go_on_from_what_the_client_has(trained_server: LlamaServer) -> None:
    unaided = len(COMMANDS) - await count_right(trained_server.url, COMMANDS, streamed=True, max_retries=0)
    left = len(COMMANDS) - await count_right(trained_server.url, COMMANDS, streamed=True)

    assert unaided >= 6
    assert 2 * left <= unaided
