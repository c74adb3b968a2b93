"""Families of replies that make careless parsers slow or large, at any size.

Rule: a family is one idea, repeated; `size` is the length in characters, give or take one repetition.
Neighbours: the laws measure work and memory on them, the parser's benchmark measures time.
"""

from collections.abc import Callable

OPEN, CLOSE = "<function_call>", "</function_call>"
CALL = OPEN + '{"name": "f", "arguments": {}}' + CLOSE
BODY = OPEN + '{"name": "f", "arguments": '


def _fill(before: str, unit: str, after: str = "") -> Callable[[int], str]:
    def make(size: int) -> str:
        times = max(1, (size - len(before) - len(after)) // len(unit))
        return before + unit * times + after

    return make


def _distinct_keys(size: int) -> str:
    members = (f'"{number:07}":1' for number in range(max(1, size // 12)))
    return BODY + "{" + ",".join(members) + "}}" + CLOSE


def _array_of_calls(size: int) -> str:
    calls = ['{"name": "f", "arguments": {"a": 1}}'] * max(1, size // 38)
    return OPEN + "[" + ", ".join(calls) + "]" + CLOSE


FAMILIES: dict[str, Callable[[int], str]] = {
    "prose": _fill("", "the weather in Paris is fine. "),
    "runs of <": _fill("", "<"),
    "decoy markers": _fill("", "<function_cal"),
    "opening tags": _fill("", OPEN),
    "opening tags and braces": _fill("", OPEN + "{"),
    "opening tags and keys": _fill("", OPEN + '{"name":'),
    "closing tags": _fill("", CLOSE),
    "white space in text": _fill("", " \n"),
    "white space in a body": _fill(OPEN, " \n"),
    "white space in arguments": _fill(BODY + "{", " \n", "}}" + CLOSE),
    "white space after a body": _fill(BODY + "{}}", " \n", CLOSE),
    "nested arrays": _fill(BODY + '{"a": ', "["),
    "nested objects": _fill(BODY, '{"a":'),
    "closing brackets": _fill(BODY + "{}}", "]}", CLOSE),
    "backslashes in a string": _fill(BODY + '{"a": "', "\\\\", '"}}' + CLOSE),
    "escaped quotes in a string": _fill(BODY + '{"a": "', '\\"', '"}}' + CLOSE),
    "half surrogates in a string": _fill(BODY + '{"a": "', "\\ud83d", '"}}' + CLOSE),
    "bad escapes in a string": _fill(BODY + '{"a": "', "\\d", '"}}' + CLOSE),
    "raw newlines in a string": _fill(BODY + '{"a": "', "\n", '"}}' + CLOSE),
    "bare quotes in a string": _fill(BODY + '{"a": "', 'x"y ', '"}}' + CLOSE),
    "runs of quotes": _fill(BODY + '{"a": ', '"'),
    "runs of < in a string": _fill(BODY + '{"a": "', "<", '"}}' + CLOSE),
    "closing tags in a string": _fill(BODY + '{"a": "', CLOSE, '"}}' + CLOSE),
    "closing tags in an unclosed string": _fill(BODY + '{"a": "', CLOSE),
    "an unclosed string": _fill(BODY + '{"a": "', "x"),
    "an unclosed single-quoted string": _fill(BODY + "{'a': '", "x"),
    "commas": _fill(BODY + '{"a": [', ","),
    "items": _fill(BODY + '{"a": [1', ",1", "]}}" + CLOSE),
    "digits": _fill(BODY + '{"a": ', "7"),
    "distinct keys": _distinct_keys,
    "a long key": _fill(BODY + '{"', "k", '": 1}}' + CLOSE),
    "a long name": _fill(OPEN + '{"name": "', "n", '", "arguments": {}}' + CLOSE),
    "a long other key": _fill(OPEN + '{"why": "', "w", '", "name": "f", "arguments": {}}' + CLOSE),
    "comments": _fill(BODY + "{", "/* */", "}}" + CLOSE),
    "an unclosed comment": _fill(BODY + "{ /*", "* "),
    "arguments first": _fill(OPEN + '{"arguments": {"a": "', "x", '"}, "name": "f"}' + CLOSE),
    "arguments in a JSON string": _fill(BODY + '"{\\"a\\": \\"', "x", '\\"}"}' + CLOSE),
    "an array of calls": _array_of_calls,
    "tiny calls": _fill("", CALL),
    "tiny calls on lines": _fill("", CALL + "\n"),
    "calls to an unknown tool": _fill("", OPEN + '{"name": "g", "arguments": {}}' + CLOSE),
    "bad calls": _fill("", BODY + "@}" + CLOSE),
    "calls that need mending": _fill("", BODY + "{'a': 1}}" + CLOSE),
    "backticks": _fill("", "`"),
    "backticks apart": _fill("", "` "),
    "growing code spans": lambda size: "".join("`" * (1 + n % 50) + " " for n in range(size // 26)),
    "calls after a backtick": _fill("` ", CALL),
    "calls in code spans": _fill("", f"`{CALL}` "),
    "calls after backticks": _fill("", f"`{CALL}\n\n"),
    "fences": _fill("", "```\n"),
    "fences of both kinds": _fill("", "```\n~~~\n"),
    "a fence of calls": _fill("```\n", CALL + "\n", "```\n"),
    "a fence of calls, text after": _fill("```\n", CALL + "\n", "```\nso"),
    "an unclosed fence of text": _fill("```\n", "x = 1\n"),
    "fences of one call": _fill("", f"```\n{CALL}\n```\n"),
    "a long fence line": _fill("```", "x"),
    "quotations": _fill("", f"> {CALL}\n"),
    "think tags": _fill("", "<think></think>"),
    "opening think tags": _fill("", "<think>"),
    "reasoning": _fill("<think>", "hm </"),
    "calls in reasoning": _fill("<think>", CALL),
    "result tags": _fill("", "<function_result>"),
    "result blocks": _fill("", f'<function_result name="f">{CALL}</function_result>\n'),
    "role lines": _fill("", "User: x\nAssistant: y\n"),
}
