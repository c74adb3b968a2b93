"""Coerce a value that its schema does not admit into the one that was meant.

Theory of operation. If an alternative admits the kind of a value, its members are matched one by one. If none does, the
value is reinterpreted: first as another scalar (`_read_scalar`), then as JSON written in a string, then as the
only element of an array. A reinterpretation counts only if an alternative admits it. Where two that differ count, the
value is left as it is. A changed value is reported once, with all changes inside it.

Rule: a value that the schema admits is never changed; around a changed value the source text stays as it is.
"""

import math
import re
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from fcshim.events import JSON, Coercion
from fcshim.schema.expect import Expectation, SchemaShape, scalar_key
from fcshim.schema.limits import StepLimit, StepLimitError
from fcshim.schema.node import CONTAINERS, Node, ValueKind, load_json, scan
from fcshim.schema.python_literal import python_to_json

_BASE_STEPS = 4_096
_STEPS_PER_CHARACTER = 8
_STEPS_PER_VALUE = 16
_MAX_STEPS = 12_000
"""Limit on comparisons with alternatives, because nested unions multiply. Beyond it the value is not changed."""
_MAX_NUMBER_DIGITS = 309
"""Digits of the largest double. A string with more of them, written out or by its exponent, is not read as a number."""

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)((?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?)")
_GROUPED_NUMBER = re.compile(r"-?[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]++)?")
_WITH_COMMAS = re.compile(r"\s*[-+]?[0-9][0-9.]*+,[0-9.,]*+\s*")
_THOUSANDS = re.compile(r"-?[1-9][0-9]{0,2}\.000")
"""As an integer, 12 or, in many languages, 12000."""
_DECIMAL = re.compile(r"(-?)([0-9]++)(?:\.([0-9]++))?(?:[eE]([-+]?[0-9]{1,4}))?")
_NO_VALUES = frozenset({"", "null", "none", "nil", "undefined", "n/a", "-", "{}"})
"""Where an array is expected, these mean none as likely as one element."""
_SEPARATOR = re.compile(
    r"[,;|\t\n、，；،•]|\\[nt]|\s(?:-|(?:[/+]|&&?|(?i:and|or|und|oder|et|ou|y|e|и|или))\s)"
    r"|#\S{1,80}\s{1,8}#|@\S{1,80}\s{1,8}\S{0,80}@"
)
"""What stands between the elements of a list that is written as text, and before an option of a command."""
_BULLET = re.compile(r"(?:[-*]|[0-9]{1,3}[.)])\s")
_ESCAPES_OF_SPACE = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r"})


class CoercedValue(msgspec.Struct, frozen=True):
    """A changed value: its JSON, and the changes, with JSON Pointers relative to the value.

    A null member that was removed because the schema does not admit null is reported as a change from null to null.
    """

    text: str
    changes: tuple[Coercion, ...]


class MatchResult(msgspec.Struct, frozen=True):
    """How a value matches an expectation: whether it fits (after coercion), and its new JSON if it changes."""

    fits: bool
    text: str | None = None
    changes: tuple[Coercion, ...] = ()


FITS = MatchResult(fits=True)
MISFIT = MatchResult(fits=False)

Scalar: TypeAlias = tuple[ValueKind, JSON, str]
"""A value with its kind and its JSON."""

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("true", "True", "TRUE"), ("boolean", True, "true")),
    **dict.fromkeys(("false", "False", "FALSE"), ("boolean", False, "false")),
    **dict.fromkeys(("null", "None"), ("null", None, "null")),
}
"""The strings that may mean a boolean or null."""


def coerce(
    expectation: Expectation, value: JSON, raw: str, steps: StepLimit | None = None, *, wrap: bool = True
) -> CoercedValue | None:
    """Return the coerced `value`, whose JSON is `raw`; None where it does not change, or no `steps` are left.

    Without `wrap`, which is for an element of an array, the value is not made an array.
    """
    if not expectation.shapes or (isinstance(value, str) and expectation.admits("string", value)):
        return None
    if steps is not None and steps.remaining < 0:
        return None
    node = scan(raw)
    result = None if node is None else match_value(node, expectation, steps, wrap=wrap)
    if result is None or result.text is None:
        return None
    return CoercedValue(result.text, result.changes)


def is_misgrouped(expectation: Expectation, value: JSON) -> bool:
    """Return whether a number is expected and the string has one with commas whose meaning is ambiguous."""
    if not isinstance(value, str) or expectation.admits("string", value) or not _WITH_COMMAS.fullmatch(value):
        return False
    return any({"integer", "fraction"} & shape.kinds for shape in expectation.shapes)


def match_value(
    node: Node, expectation: Expectation, steps: StepLimit | None = None, *, wrap: bool = True
) -> MatchResult:
    """Match a value against an expectation; beyond its own steps, or `steps`, it does not fit and does not change."""
    own = min(_MAX_STEPS, _BASE_STEPS + _STEPS_PER_CHARACTER * (node.end - node.start))
    if steps is not None:
        steps.remaining -= _STEPS_PER_VALUE
    try:
        return _ValueMatcher(StepLimit(own) if steps is None else steps.part(own)).match(node, expectation, wrap=wrap)
    except StepLimitError:
        return MISFIT


class _ValueMatcher:
    """Matches one value and the values inside it, within a step limit.

    `wrap` is False for an element of an array, and for a value that is being wrapped in one: `[1, 2]` for an array of
    arrays may be one of them or two.
    """

    def __init__(self, steps: StepLimit) -> None:
        self._spend = steps.spend
        self._cache: dict[tuple[Node, Expectation, bool], MatchResult] = {}
        self._parsed_strings: dict[Node, Node | None] = {}

    def match(self, node: Node, expectation: Expectation, *, wrap: bool = True) -> MatchResult:
        if not expectation.shapes:
            return MISFIT if expectation.admits_nothing else FITS
        key = (node, expectation, wrap)
        found = self._cache.get(key)
        if found is None:
            likely = expectation.discriminated_shapes(node)
            found = self._match_first(node, likely) if likely else MISFIT
            if not found.fits:
                found = self._match_all(node, expectation, wrap=wrap)
            self._cache[key] = found
        return found

    def _match_all(self, node: Node, expectation: Expectation, *, wrap: bool) -> MatchResult:
        self._spend(len(expectation.shapes))
        admitting = [shape for shape in expectation.shapes if shape.admits(node.kind, node.value)]
        if not admitting:
            return self._reinterpret(node, expectation, wrap=wrap)
        if node.kind not in CONTAINERS:
            return FITS
        if len(admitting) == 1:
            return self._match_container(node, admitting[0])
        return self._match_first(node, admitting)

    # Objects and arrays whose kind is admitted.

    def _match_first(self, node: Node, shapes: list[SchemaShape]) -> MatchResult:
        """Return the match that changes nothing, or else no value (5.0 to 5), or else the only one."""
        best, is_ambiguous = MISFIT, False
        for shape in shapes:
            if not self._may_match(node, shape):
                continue
            result = self._match_container(node, shape)
            if result.fits and result.text is None:
                return result
            if result.fits and not _keeps_values(best):
                is_ambiguous = best.fits and not _keeps_values(result) and (is_ambiguous or result.text != best.text)
                best = result
        return MISFIT if is_ambiguous else best

    def _may_match(self, node: Node, shape: SchemaShape) -> bool:
        """Return whether the keys and scalar members match (a discriminator, for example), without descending.

        This rules out most alternatives early, so that nested unions do not multiply.
        """
        self._spend(1 + len(node.keys) + len(shape.required))
        if not shape.required.issubset(node.keys):
            return False
        return all(
            (child.kind == "null" and shape.drops_null(key))
            or (shape.admits_member(key) and (child.kind in CONTAINERS or self.match(child, shape.member(key)).fits))
            for key, child in zip(node.keys, node.children, strict=False)
        )

    def _match_container(self, node: Node, shape: SchemaShape) -> MatchResult:
        self._spend(len(node.children))
        if node.kind == "array":
            items = [self.match(child, shape.item(index), wrap=False) for index, child in enumerate(node.children)]
            return _rewrite_container(node, items, fits=all(item.fits for item in items))
        fits = shape.required.issubset(node.keys)
        results: list[MatchResult | None] = []
        for key, child in zip(node.keys, node.children, strict=True):
            if child.kind == "null" and shape.drops_null(key):
                results.append(None)
                continue
            result = self.match(child, shape.member(key))
            fits = fits and result.fits and shape.admits_member(key)
            results.append(result)
        return _rewrite_container(node, results, fits=fits)

    # Values that no alternative admits unchanged.

    def _reinterpret(self, node: Node, expectation: Expectation, *, wrap: bool) -> MatchResult:
        self._spend(3 * len(expectation.shapes))
        scalars = _read_scalar(node, expectation)
        result = _change(node, next(iter(scalars.values())), fits=True) if scalars else None
        if len(scalars) > 1 or (result is not None and wrap and self._may_be_element(node, expectation, *scalars)):
            return MISFIT
        result = result or self._parse_string(node, expectation, wrap=wrap)
        if result is None and wrap:
            result = self._wrap_in_array(node, expectation)
        return result or MISFIT

    def _may_be_element(self, node: Node, expectation: Expectation, scalar: tuple[str, JSON]) -> bool:
        """Return whether a scalar may be the only element of an array, but then with another value, or a list."""
        if not expectation.admits("array", None):
            return False
        if node.kind == "string" and "," in node.value:
            return True
        result = self._wrap_in_array(node, expectation)
        return result is not None and scalar not in map(scalar_key, load_json(result.text or "[]"))

    def _parse_string(self, node: Node, expectation: Expectation, *, wrap: bool) -> MatchResult | None:
        """Read a string as the JSON of an object or array, or as a dict or list in Python's notation."""
        if node.kind != "string":
            return None
        if node not in self._parsed_strings:
            begins = node.value.lstrip(" \t\r\n")[:1] in {"{", "["}
            self._parsed_strings[node] = _scan_container(node) if begins else None
        inner = self._parsed_strings[node]
        if inner is None or not expectation.admits(inner.kind, None):
            return None
        result = self.match(inner, expectation, wrap=wrap)
        return _change(node, inner.text if result.text is None else result.text, fits=result.fits)

    def _wrap_in_array(self, node: Node, expectation: Expectation) -> MatchResult | None:
        """Wrap a single element in an array, but not null, an array, or what may stand for several elements or none."""
        if node.kind in {"array", "null"} or (node.kind == "string" and not _is_one_element(node.value)):
            return None
        items = [shape.item(0) for shape in expectation.shapes if "array" in shape.kinds]
        element = self._parsed_strings.get(node) or node
        if element.kind == "object" and _may_be_list(element, items):
            return None
        results = [result for result in (self.match(node, item, wrap=False) for item in items) if result.fits]
        texts = {result.text or node.text for result in results}
        if any(result.text is None for result in results):
            texts = {node.text}
        return _change(node, f"[{texts.pop()}]", fits=True) if len(texts) == 1 else None


def _keeps_values(result: MatchResult) -> bool:
    """Return whether a match respells values only, or removes null members."""
    return result.fits and all(change.from_ == change.to for change in result.changes)


def _scan_container(node: Node) -> Node | None:
    """Parse the container in a string; None where there is none."""
    found = scan(node.value, node.depth)
    if found is None:
        strict = python_to_json(node.value) or _unescape_container(node.value)
        found = None if strict is None else scan(strict, node.depth)
    return found


def _unescape_container(text: str) -> str | None:
    r"""Return the JSON of a container that is escaped once more: `[{\"a\": 1}]`; None where it may mean two things.

    Models that escape a value like the content of a string escape all of it, or forget the backslashes.
    """
    if '\\"' not in text or text.count('\\"') != text.count('"'):
        return None
    content = scan(f'"{text.translate(_ESCAPES_OF_SPACE)}"')
    escaped_or_not = (None if content is None else scan(content.value), scan(text.replace('\\"', '"')))
    found = [node for node in escaped_or_not if node is not None]
    same = found and all(load_json(node.text) == load_json(found[0].text) for node in found)
    return found[0].text if same else None


def _change(node: Node, text: str, *, fits: bool) -> MatchResult:
    return MatchResult(fits, text, (Coercion(node.pointer, load_json(node.text), load_json(text)),))


def _rewrite_container(
    node: Node, results: "list[MatchResult | None] | list[MatchResult]", *, fits: bool
) -> MatchResult:
    """Replace the changed values in the source text of an object or array; a result of None removes the member."""
    if all(result is not None and result.text is None for result in results):
        return FITS if fits else MISFIT
    source, pos = node.source, node.start + 1
    pieces: list[str] = []
    changes: list[Coercion] = []
    for child, result in zip(node.children, results, strict=True):
        if result is None:
            changes.append(Coercion(child.pointer, None, None))
        else:
            before = source[pos : child.start]
            if not pieces and pos > node.start + 1:
                before = before.replace(",", "", 1)  # the comma after the removed members
            pieces += (before, child.text if result.text is None else result.text)
            changes += result.changes
        pos = child.end
    text = "".join((source[node.start], *pieces, source[pos : node.end]))
    return MatchResult(fits, text, tuple(changes))


def _is_one_element(text: str) -> bool:
    """Return whether a string cannot be a list (`a, b`), a broken array, or a word for no value."""
    if _SEPARATOR.search(text):
        return False
    text = text.strip()
    if text.casefold() in _NO_VALUES or _BULLET.match(text) or f"{text[:1]}{text[-1:]}" in {"<>", "()"}:
        return False
    quote = text[:1] if text[:1] in {'"', "'"} else ""
    if quote and (text.count(quote) > 2 or not text[1:].endswith(quote)):
        return False
    first = text[len(quote) :].lstrip()[:1]
    if first in {"[", "]", "}"} or text.endswith("]"):  # an array with a mistake
        return False
    words = text.split()
    return len(words) < 2 or text.startswith("{") or any(map(str.isalpha, words))


def _may_be_list(node: Node, items: list[Expectation]) -> bool:
    """Return whether an object stands for a list: `{"item": ["a", "b"]}`, or indexes as keys."""
    if node.keys and all(map(str.isdecimal, node.keys)):
        return True
    is_wrapper = len(node.keys) == 1 and node.children[0].kind in CONTAINERS
    return is_wrapper and not any(item.lists_member(node.keys[0]) for item in items)


# Reinterpretations of a scalar. A value with two meanings that fit is not changed.


def _read_scalar(node: Node, expectation: Expectation) -> dict[tuple[str, JSON], str]:
    """Return the texts of the scalars that the value may mean, by their values; of one value, the first text."""
    found: dict[tuple[str, JSON], str] = {}
    for shape in expectation.shapes:
        for kind, value, text in _scalar_readings(node, shape):
            if shape.admits(kind, value):
                found.setdefault(scalar_key(value), text)
    # A number as a string, but 5.0 rather as 5, which is the same value.
    if not found and node.kind in {"integer", "fraction"} and expectation.admits("string", node.text):
        found[scalar_key(node.text)] = f'"{node.text}"'
    return found


def _scalar_readings(node: Node, shape: SchemaShape) -> Iterator[Scalar]:
    """Yield the words, numbers and strings of the shape's own letter case that the value may mean."""
    if node.kind == "fraction":
        yield from _as_integer(node.text)
    elif node.kind == "string":
        if node.value in _WORDS:
            yield _WORDS[node.value]
        yield from _number_in_string(node.value)
        alike = shape.find_ignoring_case(node.value)
        if alike is not None:
            yield "string", alike, msgspec.json.encode(alike).decode()


def _number_in_string(text: str) -> Iterator[Scalar]:
    if len(text) > _MAX_NUMBER_DIGITS:
        return
    written = text.replace(",", "") if _GROUPED_NUMBER.fullmatch(text) else text
    found = _NUMBER.fullmatch(written)
    if found is not None and math.isfinite(float(found[0])):
        yield "fraction" if found[1] else "integer", load_json(found[0]), found[0]
        if not _THOUSANDS.fullmatch(written):
            yield from _as_integer(found[0])


def _as_integer(text: str) -> Iterator[Scalar]:
    """Write a number without fraction (`5.0`, `5e0`) as an integer."""
    found = _DECIMAL.fullmatch(text)
    if found is None:
        return
    sign, before, after, exponent = found.groups(default="")
    shift = int(exponent or 0) - len(after)
    digits = (before + after).lstrip("0") or "0"
    if digits != "0" and shift < 0:
        if digits[shift:].strip("0"):
            return
        digits = digits[:shift]
    elif digits != "0":
        if len(digits) + shift > _MAX_NUMBER_DIGITS:
            return
        digits += "0" * shift
    written = digits if digits == "0" else sign + digits
    yield "integer", int(written), written
