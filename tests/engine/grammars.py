"""GBNF grammars that make a random model write call text, and the plain reading of what it wrote.

Rule: `read` shares nothing with fcshim's parser: it is `json` on what stands after each opening tag.
Neighbours: `recordings` sends the grammars, `test_random_streams` compares.
"""

import json
from typing import NamedTuple

OPEN, CLOSE = "<function_call>", "</function_call>"

# The keys of an object begin with letters of their own: a repeated key would make the call malformed.
JSON_RULES = r"""
object ::= "{" ws ("\"a" char{0,6} colon value ("," ws "\"b" char{0,6} colon value ("," ws "\"c" colon value)?)?)? ws "}"
colon  ::= "\":" " "?
value  ::= string | number | "true" | "false" | "null" | object | "[" (value (", " value){0,2})? "]"
number ::= "-"? ("0" | [1-9] [0-9]{0,4}) ("." [0-9]{1,3})? ([eE] [-+]? [0-9]{1,2})?
string ::= "\"" char{0,12} "\""
char   ::= [a-zA-Z0-9 ,.:;{}<>'/`] | [äß北京😀] | "\\" ["\\/bfnrt] | "\\u00e9" | "\\ud83d\\ude00"
ws     ::= "" | " " | "\n" | "\n  "
"""

PROSE_RULES = r"""
prose ::= [a-zA-Z0-9 ,.!:;{}\nä北😀]{0,30}
decoy ::= "" | "<function" | "<function_ca" | "< function_call>" | "</function" | "<f<fu"
"""

ROOTS = {
    "one call": r"""
root  ::= "<function_call>\n{\"name\":\"get_weather\",\"arguments\":{\"city\":" string ",\"n\":" number "}}\n</function_call>"
""",
    "nested, among text": r"""
root  ::= prose decoy " " prose call prose
call  ::= "<function_call>" ws "{" ws "\"name\"" ws ":" ws "\"search\"," ws "\"arguments\":" ws object ws tail
tail  ::= "}" ws "</function_call>"
""",
    "arguments first": r"""
root  ::= "Yes. " "<function_call>" ws "{\"arguments\":" ws object "," ws "\"name\":" ws "\"search\"}" ws tail
tail  ::= "</function_call>" prose
""",
    "several calls": r"""
root  ::= call ("\n" | "\n\n" | "" | " then ") call ("\n" call)?
call  ::= "<function_call>\n{\"name\": \"" name "\", \"arguments\": " object "}\n</function_call>"
name  ::= "read_file" | "search" | "get_weather"
""",
    "tags in strings": r"""
root  ::= call ("\n" call)? prose
call  ::= "<function_call>{\"name\":\"write\",\"arguments\":{\"text\":\"" char{0,4} (trap char{0,4}){1,4} "\"}}</function_call>"
trap  ::= "</function_call>" | "<function_call>" | "\\\"}}</function_call>" | "\\\"" | "\\\\" | "\\\\\\\"" | "</function_c"
""",
}

GRAMMARS = {name: root + PROSE_RULES + JSON_RULES for name, root in ROOTS.items()}


class PlainCall(NamedTuple):
    """What the block of one call says."""

    name: str
    arguments: object


def read(text: str) -> tuple[str, list[PlainCall]]:
    """Give the text around the calls, joined, and the calls."""
    texts, calls = [], []
    decoder = json.JSONDecoder()
    while OPEN in text:
        before, _, rest = text.partition(OPEN)
        value, end = decoder.raw_decode(rest.lstrip())
        after = rest.lstrip()[end:].lstrip()
        assert after.startswith(CLOSE), after
        texts.append(before)
        calls.append(PlainCall(value["name"], value["arguments"]))
        text = after.removeprefix(CLOSE)
    return "".join([*texts, text]), calls
