"""Whether the tools that a prompt describes include those that a request needs, by `--tool-search`, in 18 languages.

The requests of `fcshim eval`, with all of its tools, of which 8 are described; the model at the URL translates.

    llama-server --model qwen2.5-coder-1.5b.gguf --port 8080
    python -m benchmarks.tool_recall http://127.0.0.1:8080 [CATEGORY ...]
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence

from fcshim.evaluate.suite import load_cases, tool_sets
from fcshim.messages import Message, Tool, UserMessage
from fcshim.openai import read_request
from fcshim.parse.dialects import FUNCTION_CALL
from fcshim.pipeline.backends import get_backend
from fcshim.prompt.content import Escaper
from fcshim.prompt.escape import escaper_for
from fcshim.prompt.history import split_conversation
from fcshim.prompt.listing import select_tools
from fcshim.upstream import Upstream
from fcshim.upstream.question import Translations

DESCRIBED = 8
TOOLS = tuple({tool.name: tool for tools in tool_sets().values() for tool in tools}.values())


def shown(messages: Sequence[Message], tools: Sequence[Tool] = TOOLS) -> set[str]:
    """Return the names of the tools that the prompt describes."""
    selection = select_tools(tools, split_conversation(messages)[1], DESCRIBED, Escaper(escaper_for(FUNCTION_CALL)))
    later = [tool for group in selection.described_later.values() for tool in group]
    return {tool.name for tool in (*selection.described, *later)}


async def measure(url: str, categories: Sequence[str]) -> None:
    """Print a row for each category: requests, found by words, found with translations, those translated, seconds."""
    print("category, requests, by words, translated as well, translations, seconds for each")
    async with Upstream(url) as upstream:
        for category in categories:
            cases = [case for case in load_cases([category]) if case.expected and case.expected[0]]
            by_words = with_translation = translated = 0
            started_at = time.monotonic()
            for case in cases:
                needed = {call.name for call in case.expected[0]}
                request = read_request(list(case.messages), TOOLS, {"model": "m"})
                added = await Translations(upstream).add_to(request, get_backend("llama-server"))
                by_words += needed <= shown(request.messages)
                found = needed <= shown(added.messages)
                with_translation += found
                words = [each.translation for each in added.messages if isinstance(each, UserMessage)]
                translated += any(words)
                if not found:
                    print(f"  missed {case.id}: {' / '.join(words)}", flush=True)
            seconds = (time.monotonic() - started_at) / max(translated, 1)
            count = len(cases)
            shares = f"{by_words / count:.0%}, {with_translation / count:.0%}"
            print(f"{category}, {count}, {shares}, {translated}, {seconds:.1f}", flush=True)


def main() -> None:
    """Measure at an endpoint."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("categories", nargs="*", default=["languages", "many_tools", "simple", "several_tools"])
    options = parser.parse_args()
    asyncio.run(measure(options.url, options.categories))


if __name__ == "__main__":
    sys.exit(main())
