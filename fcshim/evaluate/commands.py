"""The category `commands`, for the demo model: each command names the tool to call and the values of its arguments.

Rule: the commands are generated from a seed that the training of the demo model does not use.
"""

from collections.abc import Iterator
from random import Random

from fcshim.demo.conversations import Scenario, SyntheticExchange, make_exchange, make_scenario
from fcshim.evaluate.case import Case, ExpectedCall

_SEED = 20_261_121
_ONE_CALL, _TWO_CALLS, _NO_CALL = 60, 20, 10


def command_cases(category: str) -> Iterator[Case]:
    """Yield the cases: commands for one call, for two calls, and texts to repeat."""
    rng = Random(_SEED)
    for calls, times in ((1, _ONE_CALL), (2, _TWO_CALLS), (0, _NO_CALL)):
        for number in range(1, times + 1):
            scenario = make_scenario(rng, plain=True)
            yield _case(f"{category}-{calls}-{number:03}", category, scenario, make_exchange(rng, scenario, calls))


def _case(id_: str, category: str, scenario: Scenario, exchange: SyntheticExchange) -> Case:
    system = ({"role": "system", "content": scenario.instructions},) if scenario.instructions else ()
    return Case(
        id=id_,
        category=category,
        messages=(*system, {"role": "user", "content": exchange.command}),
        tools=scenario.tools,
        expected=(tuple(_expected(call.name, call.arguments) for call in exchange.calls),),
    )


def _expected(name: str, arguments: dict[str, object]) -> ExpectedCall:
    return ExpectedCall(name, {key: [value] for key, value in arguments.items()})
