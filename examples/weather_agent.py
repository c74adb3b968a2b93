"""An agent that answers questions about the weather: async tools, pydantic models, and events as they come.

    python examples/weather_agent.py [--url http://127.0.0.1:8080] [QUESTION]

The forecasts are made up; a real tool would ask a service where `get_weather` waits.
"""

import argparse
import asyncio
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from fcshim import Client, Text, ToolCallEnd
from fcshim.agent import Agent, RoundEnded
from fcshim.messages import text_of
from fcshim.tools import CallFinished

QUESTION = "How will the weather be in Oslo and in Paris tomorrow? Where is it warmer?"
INSTRUCTIONS = "You answer questions about the weather in one or two sentences, from the forecasts alone."

Sky = Literal["sunny", "cloudy", "rainy"]
SKIES: tuple[Sky, ...] = ("sunny", "cloudy", "rainy")
City = Annotated[str, Field(description="the name of the city, in English", min_length=2)]


class Forecast(BaseModel):
    """The weather of one day."""

    city: str
    sky: Sky
    degrees: int


async def get_weather(city: City, days: Annotated[int, Field(ge=0, le=7)] = 0) -> Forecast:
    """Tell the weather in a city, on one day.

    Args:
        days: how many days from today
    """
    await asyncio.sleep(0)
    number = sum(map(ord, city)) + days
    return Forecast(city=city, sky=SKIES[number % 3], degrees=number % 30)


async def main() -> None:
    """Ask, and print calls, results and the answer as they come."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("question", nargs="?", default=QUESTION)
    options.add_argument("--url", default="http://127.0.0.1:8080")
    given = options.parse_args()
    async with Client(given.url) as client:
        agent = Agent(client.stream, [get_weather], instructions=INSTRUCTIONS)
        async for event in agent.run(given.question):
            match event:
                case Text(text=text):
                    print(text, end="", flush=True)
                case ToolCallEnd(error=None):
                    print(f"{event.tool_call_name}{event.arguments}")
                case CallFinished(message=message):
                    print(f"  {text_of(message.content)}")
                case RoundEnded(answer=str()):
                    print()


asyncio.run(main())
