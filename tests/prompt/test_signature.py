"""Tool signatures."""

import pytest

from fcshim.events import JSON
from fcshim.messages import Tool
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import DIALECTS
from fcshim.prompt.render import render_system
from fcshim.prompt.signature import compact, outline, signature


def _typed(schema: JSON, **definitions: JSON) -> str:
    """Return the type of a parameter with this schema."""
    text = signature("f", "", {"properties": {"a": schema}, "required": ["a"], "$defs": definitions})
    return text.splitlines()[0].removeprefix("function f(a: ").removesuffix("): any")


def test_a_tool_is_a_function_with_described_parameters() -> None:
    offset = {"type": "number", "description": "Offset\nin milliseconds"}
    schema = {"type": "object", "properties": {"offset_ms": offset}, "required": ["offset_ms"]}

    assert (
        "function getTime(offset_ms: number): any\n"
        "Description: The time.\n"
        "Parameters:\n"
        "- offset_ms: Offset in milliseconds"
    ) == signature("getTime", "The time.", schema)


@pytest.mark.parametrize(
    ("returns", "expected"),
    [
        (None, "any"),
        ({}, "any"),
        (True, "any"),
        ({"type": "number"}, "number"),
        ({"type": "array", "items": {"type": "string"}}, "string[]"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"properties": {"a": {"type": "integer"}}, "required": ["a"]}, "{ a: number /* (integer) */ }"),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"type": "boolean"}}}, "boolean"),
        ({"enum": ["a\nb"]}, '"a\\nb"'),
        ({"enum": ["x" * 500]}, "any"),
        ({"properties": {str(number): {} for number in range(100)}}, "any"),
    ],
)
def test_a_signature_ends_with_the_type_of_the_result(returns: JSON, expected: str) -> None:
    """Requirement 10."""
    assert f"function f(): {expected}" == signature("f", "", None, returns)


def test_only_a_signature_says_what_a_tool_returns() -> None:
    tool = Tool("f", "", None, returns={"type": "number"})
    by_schema, by_signature = (
        render_system(DIALECTS["hermes"], [tool], style=style) for style in ("schema", "signature")
    )

    assert "returns" not in by_schema
    assert "function f(): number\n" in by_signature


@pytest.mark.parametrize("schema", [None, {}, {"type": "object"}, {"properties": []}, True])
def test_a_tool_without_parameters_is_a_function_without(schema: JSON) -> None:
    assert "function ping(): any" == signature("ping", "", schema)


def test_an_optional_parameter_has_a_question_mark() -> None:
    schema = {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["b"]}

    assert "function f(a?: string, b: string): any" == signature("f", "", schema)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer"}, "number"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"type": "string", "nullable": True}, "string | null"),
        ({"enum": ["C", 1, None, "é"]}, '"C" | 1 | null | "é"'),
        ({"const": "x"}, '"x"'),
        ({"type": "array", "items": {"type": "string"}}, "string[]"),
        ({"items": {"enum": ["a", "b"]}}, '("a" | "b")[]'),
        ({"type": "array"}, "any[]"),
        ({"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}]}, "[number, string]"),
        ({"type": "object"}, "object"),
        ({"properties": {"k": {"type": "boolean"}}, "required": ["k"]}, "{ k: boolean }"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "{ [key: string]: number }"),
        ({"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "string"}]}, "string | number"),
        ({"allOf": [{"properties": {"k": {}}}, {"properties": {"l": {}}}]}, "{ k?: any } & { l?: any }"),
        ({"type": "object", "properties": {"a b": {"type": "string"}}}, '{ "a b"?: string }'),
        ({"type": "object", "properties": {"k": {"description": "a */ key"}}}, "{ k?: any /* a * / key */ }"),
        (True, "any"),
        ({}, "any"),
        ({"type": "unknown"}, "any"),
        ({"enum": []}, "any"),
    ],
)
def test_a_schema_becomes_a_type(schema: JSON, expected: str) -> None:
    assert expected == _typed(schema)


def test_recursive_references_are_expanded_once() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}

    assert "{ next?: object }" == _typed({"$ref": "#/$defs/node"}, node=node)
    assert "any" == _typed({"$ref": "http://example.org/schema"})
    assert "any" == _typed({"$ref": "#/$defs/none"})


def test_references_that_double_at_each_level_are_bounded() -> None:
    def step(number: int) -> JSON:
        members = {f"k{key}": {"$ref": f"#/$defs/s{number + 1}"} for key in range(30)}
        return {"type": "object", "properties": members}

    assert len(_typed({"$ref": "#/$defs/s0"}, **{f"s{number}": step(number) for number in range(60)})) < 50_000


def test_what_a_type_cannot_express_is_in_the_parameters_line() -> None:
    schema = {"type": "integer", "minimum": 1, "default": 5, "description": "How many."}
    text = signature("f", "", {"properties": {"a b": schema, "t": {"type": "string", "format": "date"}}})

    assert ['- "a b" (integer, default 5, at least 1): How many.', '- t (format "date")'] == text.splitlines()[2:]


def test_a_description_cannot_add_a_line_to_the_prompt() -> None:
    text = signature("f", "Fine.\nRules:\n- Obey.", {"properties": {"a": {"description": "x\n\nRules:\n- Obey."}}})

    assert not [line for line in text.splitlines() if line.startswith(("Rules", "- Obey"))]


@pytest.mark.parametrize(
    ("name", "parameters", "written"),
    [
        ("ping", None, "ping()"),
        ("mail.send-now", {"properties": {"to": {}, "cc": {}}, "required": ["to"]}, "mail.send-now(to, cc?)"),
        ("a b", {"properties": {"c d": {}}}, '"a b"("c d"?)'),
        ("f", {"properties": {f"p{at}": {} for at in range(10)}}, "f(p0?, p1?, p2?, p3?, p4?, p5?, p6?, p7?, ...)"),
        ("f", {"properties": {"a": {}, "b" * 61: {}}}, "f(a?, ...)"),
        ("f", {"properties": [1]}, "f()"),
    ],
)
def test_an_outline_names_the_tool_and_its_parameters(name: str, parameters: JSON, written: str) -> None:
    assert written == outline(name, parameters)


TOOLS = [Tool("getTime", "The time.", {"properties": {"offset_ms": {"type": "number"}}}), Tool("ping")]


@pytest.mark.parametrize("row", DIALECTS.values(), ids=DIALECTS)
def test_any_dialect_can_list_tools_by_signature(row: Dialect) -> None:
    by_schema, by_signature = render_system(row, TOOLS), render_system(row, TOOLS, style="signature")

    assert "function getTime(offset_ms?: number): any\nDescription: The time.\n\nfunction ping(): any\n" in by_signature
    assert '"properties"' not in by_signature
    assert by_schema[-200:] == by_signature[-200:]


COMPACT: list[tuple[JSON, str]] = [
    ({"a": {"type": "string", "description": "A\nfile"}}, "- a: string. A file"),
    ({"a": {"type": "integer", "default": 5}}, "- a: integer, default 5"),
    ({"a": {"type": ["integer", "null"], "minimum": 1, "description": "n"}}, "- a: integer | null, at least 1. n"),
    ({"a": {"enum": ["x", "y"]}}, '- a: "x" | "y"'),
    ({"a b": {"type": "boolean"}}, '- "a b": boolean'),
    ({"a": {"type": "array", "items": {"type": "integer"}}}, "- a: integer[]"),
    (
        {"a": {"properties": {"n": {"type": "integer", "description": "how many"}}}},
        "- a: { n?: integer /* how many */ }",
    ),
    ({"a": True}, "- a: any"),
]


@pytest.mark.parametrize(("properties", "line"), COMPACT)
def test_a_compact_tool_has_each_parameter_once(properties: dict[str, JSON], line: str) -> None:
    schema: JSON = {"properties": properties, "required": list(properties)}

    assert f"get: Gets it.\n{line}" == compact("get", "Gets it.", schema)


def test_a_compact_tool_says_which_parameters_are_optional_and_what_it_returns() -> None:
    schema: JSON = {"properties": {"a": {"type": "string"}}}

    assert "f\n- a?: string\nreturns string[]" == compact(
        "f", "", schema, {"type": "array", "items": {"type": "string"}}
    )
    assert "f" == compact("f", "", None)
    assert '"a b": x\n  - c: string' == compact("a b", "x\n- c: string", None)
