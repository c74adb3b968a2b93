"""The programs of examples/, in front of a real llama-server with the demo's model.

The model understands no questions, so each program gets commands that the model can copy into calls.
"""

import json
import subprocess
import sys
from pathlib import Path

from tests.engine.llama_server import LlamaServer

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(server: LlamaServer, name: str, *arguments: object) -> list[str]:
    """Run a program; return the lines that it prints."""
    command = [sys.executable, EXAMPLES / name, "--url", server.url, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert (0, "") == (done.returncode, done.stderr), done.stdout
    return done.stdout.splitlines()


def test_the_weather_agent_calls_its_tool_and_answers(trained_server: LlamaServer) -> None:
    called, result, answer = run(trained_server, "weather_agent.py", "call get_weather with city=Oslo, days=2")

    assert "get_weather{'city': 'Oslo', 'days': 2}" == called
    assert {"city": "Oslo", "sky": "cloudy", "degrees": 25} == json.loads(result)
    assert "get_weather returned" in answer


def test_fifty_records_are_extracted(trained_server: LlamaServer, tmp_path: Path) -> None:
    expected = [{"number": 100 + at, "vendor": "Oslo", "amount": at + 0.5, "currency": "EUR"} for at in range(50)]
    file = tmp_path / "texts.txt"
    lines = [", ".join(f"{key}={value}" for key, value in record.items()) for record in expected]
    file.write_text("\n".join(f"call final_answer with {line}" for line in lines))

    assert expected == list(map(json.loads, run(trained_server, "extract.py", file)))


def test_there_are_fifty_texts_to_extract_from() -> None:
    assert 50 == len(set((EXAMPLES / "invoices.txt").read_text(encoding="utf-8").splitlines()))


def test_a_sub_agent_answers_for_the_main_one(trained_server: LlamaServer) -> None:
    asked, told, answer = run(trained_server, "delegate.py", "call ask_librarian with title=Emma")

    assert 'asked: {"title": "Emma"}' == asked
    assert "told: look_up returned Jane Austen, 1815" == told
    assert answer.startswith("ask_librarian returned")
