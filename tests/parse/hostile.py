"""Families of replies of any size that make a careless parser use too much time or memory.

Rule: a family repeats one pattern; `size` is the length in characters, to within one repetition.
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
    "end tokens after a call": _fill(CALL, "</s>"),
    "brackets after a call": _fill(CALL, "}\n"),
    "end tokens after bare JSON": _fill('{"name": "f", "arguments": {}}', "</s>"),
    "semicolons after bare JSON": _fill('{"name": "f", "arguments": {}}', "; "),
    "bare JSON with semicolons": _fill("", '{"name": "f", "arguments": {}}; '),
    "closing brackets": _fill(BODY + "{}}", "]}", CLOSE),
    "backslashes in a string": _fill(BODY + '{"a": "', "\\\\", '"}}' + CLOSE),
    "escaped quotes in a string": _fill(BODY + '{"a": "', '\\"', '"}}' + CLOSE),
    "half surrogates in a string": _fill(BODY + '{"a": "', "\\ud83d", '"}}' + CLOSE),
    "bad escapes in a string": _fill(BODY + '{"a": "', "\\d", '"}}' + CLOSE),
    "raw newlines in a string": _fill(BODY + '{"a": "', "\n", '"}}' + CLOSE),
    "bare quotes in a string": _fill(BODY + '{"a": "', 'x"y ', '"}}' + CLOSE),
    "options": _fill(BODY + "{", '--a "x" ', "}}" + CLOSE),
    "options with open quotes": _fill(BODY + "{--a ", '"x --a '),
    "runs of quotes": _fill(BODY + '{"a": ', '"'),
    "runs of < in a string": _fill(BODY + '{"a": "', "<", '"}}' + CLOSE),
    "closing tags in a string": _fill(BODY + '{"a": "', CLOSE, '"}}' + CLOSE),
    "closing tags in an unclosed string": _fill(BODY + '{"a": "', CLOSE),
    "an unclosed string": _fill(BODY + '{"a": "', "x"),
    "escaped entities": _fill(OPEN + "{&quot;a&quot;: ", "&quot;", "}" + CLOSE),
    "full-width commas": _fill(BODY + "{", "，", "}}" + CLOSE),
    "literal commas in an array": _fill(BODY + '{"a": ["x "y" z', '", ".', '"]}}' + CLOSE),
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

LIST = "[f(a="
LFM2, LFM2_END = "<|tool_call_start|>", "<|tool_call_end|>"
GEMMA, GEMMA_END = "<|tool_call>call:f{a:", "}<tool_call|>"

IN_DIALECTS: dict[str, tuple[str, Callable[[int], str]]] = {
    "python: lists in a list": ("pythonic", _fill(LIST, "[")),
    "python: brackets": ("pythonic", _fill(LIST, "(")),
    "python: braces": ("pythonic", _fill(LIST, "{")),
    "python: dicts in a dict": ("pythonic", _fill(LIST, "{'a':")),
    "python: calls in a call": ("pythonic", _fill("[", "f(a=")),
    "python: lists at line starts": ("pythonic", _fill("", "[f(\n")),
    "python: empty lists": ("pythonic", _fill("", "[]\n")),
    "python: words in brackets": ("pythonic", _fill("", "[x\n")),
    "python: tiny calls": ("pythonic", _fill("[f()", ", f()", "]")),
    "python: arguments": (
        "pythonic",
        lambda size: "[f(" + ",".join(f"a{n:06}=1" for n in range(size // 11 + 1)) + ")]",
    ),
    "python: the same argument": ("pythonic", _fill("[f(a=1", ",a=1", ")]")),
    "python: items": ("pythonic", _fill(LIST + "[1", ",1", "])]")),
    "python: quotes": ("pythonic", _fill(LIST, "'")),
    "python: double quotes": ("pythonic", _fill(LIST, '"')),
    "python: empty strings": ("pythonic", _fill(LIST, "'' ")),
    "python: unescaped quotes": ("pythonic", _fill(LIST + "'", "it's ", "')]")),
    "python: strings with quotes": ("pythonic", _fill("[f(a=[", '"a"b",', "])]")),
    "python: quotes and keywords": ("pythonic", _fill('[f(a="', '", b="x "', '")]')),
    "python: quotes and hash signs": ("pythonic", _fill('[f(a="', '"# ', '")]')),
    "gemma: quotes in ordinary quotes": ("gemma4", _fill('<|tool_call>call:f{a:"', '", b:"x "', '"}<tool_call|>')),
    "hermes: strings with quotes": (
        "hermes",
        _fill('<tool_call>{"name": "f", "arguments": {"a": "', '"a"b",', '"}}</tool_call>'),
    ),
    "hermes: quotes and hash signs": (
        "hermes",
        _fill('<tool_call>{"name": "f", "arguments": {"a": "', '"# ', '"}}</tool_call>'),
    ),
    "python: quotes and commas": ("pythonic", _fill(LIST + "'", "', x ", "')]")),
    "python: quotes and brackets": ("pythonic", _fill(LIST + "'", "')] x", "')]")),
    "python: quotes and white space": ("pythonic", _fill(LIST + "'", "'" + " " * 60, "')]")),
    "python: quotes and long words": ("pythonic", _fill(LIST + "'", "' , " + "x" * 60, "')]")),
    "python: quotes in triple quotes": ("pythonic", _fill(LIST + "'''", "'' ", "''')]")),
    "python: strings side by side": ("pythonic", _fill(LIST, "'x' ", ")]")),
    "python: backslashes": ("pythonic", _fill(LIST + "'", "\\\\", "')]")),
    "python: escapes": ("pythonic", _fill(LIST + "'", "\\x41\\'", "')]")),
    "python: named characters": ("pythonic", _fill(LIST + "'", "\\N{A", "')]")),
    "python: half surrogates": ("pythonic", _fill(LIST + "'", "\\ud83d", "')]")),
    "python: braces in an f-string": ("pythonic", _fill(LIST + "f'", "{{", "')]")),
    "python: an unclosed string": ("pythonic", _fill(LIST + "'", "x")),
    "python: a long word": ("pythonic", _fill(LIST, "x")),
    "python: digits": ("pythonic", _fill(LIST, "1_")),
    "python: a long name": ("pythonic", _fill("[", "f.", "f()]")),
    "python: white space": ("pythonic", _fill("[f(", " \n", "a=1)]")),
    "python: comments": ("pythonic", _fill("[f(", "#'(\n", "a=1)]")),
    "python: one comment": ("pythonic", _fill("[f( #", "# ", "\na=1)]")),
    "python: a set": ("pythonic", _fill(LIST + "{1", ",1", "})]")),
    "python: a long key": ("pythonic", _fill(LIST + "{'", "k", "': 1})]")),
    "python: white space behind a bad call": ("pythonic", _fill("[f(a=x" + "\n", " ", ")]")),
    "python: expressions": ("pythonic", _fill("", "[f(a=x[(1)])]\n")),
    "python: closing tags in a string": ("lfm2", _fill(LFM2 + LIST + "'", LFM2_END, "')]" + LFM2_END)),
    "python: closing tags in an unclosed string": ("lfm2", _fill(LFM2 + LIST + "'", LFM2_END)),
    "python: unclosed strings": ("lfm2", _fill("", LFM2 + LIST + "'x)]" + LFM2_END)),
    "python: runs of < in a string": ("lfm2", _fill(LFM2 + LIST + "'", "<", "')]" + LFM2_END)),
    "python: runs of < in a comment": ("lfm2", _fill(LFM2 + "[f( #", "<|", "\n)]" + LFM2_END)),
    "python: closing brackets": ("lfm2", _fill(LFM2 + LIST + "1", ")]", LFM2_END)),
    "python: bad calls": ("lfm2", _fill("", LFM2 + LIST + "x)]" + LFM2_END)),
    "python: calls on lines": ("olmo3", _fill("<function_calls>", "f()\n", "</function_calls>")),
    "python: fences": ("olmo3", _fill("<function_calls>", "```\n", "f()</function_calls>")),
    "wrappers: unknown tags": ("auto", _fill("", "<tool>\n")),
    "wrappers: unknown tags and keys": ("auto", _fill("", '<tool>{"name":\n')),
    "wrappers: calls in an unknown tag": ("auto", _fill("<tool>", '{"name": "f", "arguments": {}}\n')),
    "wrappers: a long call in an unknown tag": ("auto", _fill('<tool>{"name": "f", "arguments": {"a": "', "x")),
    "wrappers: tiny calls": ("auto", _fill("", '<tool>{"name": "f", "arguments": {}}</tool>\n')),
    "wrappers: calls to an unknown tool": ("auto", _fill("", '<tool>{"name": "g", "arguments": {}}</tool>\n')),
    "wrappers: different tags": ("auto", lambda size: "".join(f"<t{n}>f(a=1)</t{n}>\n" for n in range(size // 24 + 1))),
    "wrappers: unclosed tags": ("auto", lambda size: "".join(f"<t{n}>f(a=1)\n" for n in range(size // 18 + 1))),
    "wrappers: tags before start markers": ("auto", _fill("", "<tools><tool_call>")),
    "wrappers: white space after a tag": ("auto", _fill("<tool>", " \n")),
    "wrappers: bold tags": ("auto", _fill("", "**<t>\n")),
    "wrappers: entities": ("auto", _fill("", "\n&lt;t")),
    "wrappers: backslashes": ("auto", _fill("", "\n\\")),
    "wrappers: square brackets": ("auto", _fill("", "\n[TOOL")),
    "wrappers: braces at line starts": ("auto", _fill("", "\n{")),
    "wrappers: brackets at line starts": ("auto", _fill("", "\n[")),
    "wrappers: braces in the dialect of functools": ("phi4", _fill("", "\n{")),
    "wrappers: list items": ("auto", _fill("", "\n- f(")),
    "wrappers: numbered braces": ("auto", _fill("", "1. {\n")),
    "wrappers: code spans": ("auto", _fill("", "`f()`\n")),
    "wrappers: elements": ("auto", _fill("", "<f>\n")),
    "wrappers: Python calls between tags": ("auto", _fill("", "<tool_call>f(a=1)</tool_call>\n")),
    "restarts: after a key": ("auto", _fill("", '<tool_call>\n{"name"\n')),
    "restarts: in a string": ("auto", _fill("", '<tool_call>\n{"name": "f", "arguments": {"a": "x\n')),
    "restarts: start markers in a string": (
        "auto",
        _fill('<tool_call>{"name": "f", "arguments": {"a": "', "\n<tool_call>"),
    ),
    "restarts: a call each": (
        "auto",
        _fill("", '<tool_call>\n{"name"\n<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>\n'),
    ),
    "restarts: tagged calls": ("qwen3_xml", _fill("", "<tool_call>\n<function=f>\n<parameter=a>\nx\n")),
    "restarts: quoted in a value": (
        "qwen3_xml",
        _fill("<tool_call>\n<function=f>\n<parameter=a>\n", "\n<tool_call>\n<function=f>\n</function>\n</tool_call>"),
    ),
    "restarts: Python calls": ("lfm2", _fill("", '<|tool_call_start|>[f(a="x\n')),
    "restarts: newlines in a string": ("lfm2", _fill('<|tool_call_start|>[f(a="', "\n")),
    "restarts: sections": ("kimi_k2", _fill("", "<|tool_calls_section_begin|>\n")),
    "restarts: calls without closing tags": (
        "glm",
        _fill("", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n"),
    ),
    "tags: closing tags in an array": (
        "qwen3_xml",
        _fill('<tool_call>\n<function=f>\n<parameter=a>\n["', "</parameter> "),
    ),
    "tags: openings in an array": (
        "qwen3_xml",
        _fill('<tool_call>\n<function=f>\n<parameter=a>\n["', "<function=f>"),
    ),
    "cline: text after an element": ("cline", _fill("<f></f>", "x")),
    "react: results": ("auto", _fill("", "Action: f\nAction Input: {}\nObservatio\n")),
    "gemma: calls without their marker": ("auto", _fill("", "call:f{a:1}\n")),
    "gemma: the word before a call": ("auto", _fill("", "call:f\n")),
    "gemma: half calls without their marker": ("auto", _fill("", "call:f{\n")),
    "gemma: lists in a list": ("gemma4", _fill(GEMMA, "[")),
    "gemma: objects in an object": ("gemma4", _fill(GEMMA, "{a:")),
    "gemma: a long string": ("gemma4", _fill(GEMMA + '<|"|>', "x", '<|"|>' + GEMMA_END)),
    "gemma: runs of < in a string": ("gemma4", _fill(GEMMA + '<|"|>', "<|", '<|"|>' + GEMMA_END)),
    "gemma: runs of <": ("gemma4", _fill(GEMMA, "<|", GEMMA_END)),
    "gemma: tokens": ("gemma4", _fill(GEMMA, '<|"|>')),
    "gemma: strings": ("gemma4", _fill(GEMMA + "[1", ',<|"|>x<|"|>', "]" + GEMMA_END)),
    "gemma: words": ("gemma4", _fill(GEMMA + "[1", ",a b", "]" + GEMMA_END)),
    "gemma: a long word": ("gemma4", _fill(GEMMA, "x ", GEMMA_END)),
    "gemma: closing tags in a string": ("gemma4", _fill(GEMMA + '<|"|>', "<tool_call|>", '<|"|>' + GEMMA_END)),
    "gemma: unclosed strings": ("gemma4", _fill("", GEMMA + '<|"|>x' + GEMMA_END)),
    "gemma: calls in one block": ("gemma4", _fill("<|tool_call>", "call:f{}", "<tool_call|>")),
    "gemma: tiny calls": ("functiongemma", _fill("", "<start_function_call>call:f{}<end_function_call>")),
    "gemma: opening tags": ("functiongemma", _fill("", "<start_function_call>call:")),
}
"""Families in dialects other than the default one, each with its dialect."""


IN_TEMPLATES: dict[str, tuple[str, Callable[[int], str]]] = {
    "template: openings": ("text_arguments", _fill("", "<do f>")),
    "template: half openings": ("text_arguments", _fill("", "<do f")),
    "template: a long name": ("text_arguments", _fill("<do ", "f")),
    "template: calls": ("text_arguments", _fill("", "<do f>{}</do>")),
    "template: a long value": ("text_arguments", _fill('<do f>{"a": "', "x", '"}</do>')),
    "template: closing tags in a value": ("text_arguments", _fill('<do f>{"a": "', "</do>", '"}</do>')),
    "template: runs of < in a value": ("text_arguments", _fill('<do f>{"a": "', "<", '"}</do>')),
    "template: white space": ("text_arguments", _fill("<do f>", " \n", "{}</do>")),
    "template: text": ("text_arguments", _fill("<do f>", "x ", "</do>")),
}
"""Families in the dialects of response templates, each with its template."""
