"""Records what transformers makes of every reply: `make record-response-templates`, which installs it.

Rule: the results are data of the tests; they change only with the replies, the templates, or transformers.
"""

import json
from pathlib import Path

from transformers.utils.chat_parsing import parse_response  # type: ignore[import-not-found] # not a dependency

DATA = Path(__file__).parent / "data"


def main() -> None:
    """Write `results.json`: for each reply the message, or null where transformers raises an error."""
    templates, tools, replies = (
        json.loads((DATA / f"{name}.json").read_text(encoding="utf-8")) for name in ("templates", "tools", "replies")
    )
    results = [record(templates[case["template"]], case, tools) for case in replies]
    lines = ",\n".join(f"  {json.dumps(result, ensure_ascii=False)}" for result in results)
    (DATA / "results.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def record(template: object, case: dict[str, str], tools: object) -> object:
    """Return the message of one reply."""
    try:
        return parse_response(case["reply"], template, prefix=case.get("prefix", ""), tools=tools)
    except ValueError:
        return None


if __name__ == "__main__":
    main()
