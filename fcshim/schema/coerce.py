"""Change a value that its schema does not admit into the one that was meant; each way of doing so has a name.

Theory of operation. A value that some alternative takes is looked into, member by member. One that none takes is read
differently: first as a scalar (`_SCALARS`), then as JSON written in a string, then as the only element of an array.
Such a reading must be taken by an alternative; a changed value is reported once, with all that changed inside it.

Rule: a value that the schema admits is never touched, and neither are the neighbours of one that is changed.
Neighbours: `expect` says what is admitted, `node` keeps places, the parser hands over values it has held.
"""

import math
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from fcshim.events import JSON, Coercion
from fcshim.schema.node import CONTAINERS, Node, ValueKind, load_json, scan
from fcshim.schema.shape import SchemaShape

if TYPE_CHECKING:
    from fcshim.schema.expect import Expectation

_BASE_STEPS = 2_048
_STEPS_PER_CHARACTER = 8
"""Values compared with an alternative: unions inside unions multiply. Beyond it the value stays as it is."""
_MAX_NUMBER_DIGITS = 309
"""Digits: what a double reaches. More of them, or an exponent that writes more, are no number that was meant."""

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)((?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?)")
_DECIMAL = re.compile(r"(-?)([0-9]++)(?:\.([0-9]++))?(?:[eE]([-+]?[0-9]{1,4}))?")
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULLS = frozenset({"null", "None"})


class CoercedValue(msgspec.Struct, frozen=True):
    """A changed value: its JSON, and what was changed in it, by JSON Pointers from the value itself.

    A member that was left out, null for absent, is reported as changed from null to null.
    """

    text: str
    changes: tuple[Coercion, ...]


class MatchResult(msgspec.Struct, frozen=True):
    """How a value stands to what is expected: whether it fits (after the change), and what it becomes if it changes."""

    fits: bool
    text: str | None = None
    changes: tuple[Coercion, ...] = ()


FITS = MatchResult(fits=True)
MISFIT = MatchResult(fits=False)

Scalar: TypeAlias = tuple[ValueKind, JSON, str]
"""A value with its kind and its JSON."""


def coerce(expectation: "Expectation", value: JSON, raw: str) -> CoercedValue | None:
    """Give what `value`, written as `raw`, becomes; None where it stays as it is."""
    if not expectation.shapes or (isinstance(value, str) and expectation.admits("string", value)):
        return None
    node = scan(raw)
    finding = None if node is None else match_value(node, expectation)
    if finding is None or finding.text is None:
        return None
    return CoercedValue(finding.text, finding.changes)


def match_value(node: Node, expectation: "Expectation") -> MatchResult:
    """Compare a value with what is expected; beyond the limit of work it does not fit and does not change."""
    try:
        return _ValueMatcher(_BASE_STEPS + _STEPS_PER_CHARACTER * (node.end - node.start)).match(node, expectation)
    except _StepLimitError:
        return MISFIT


class _StepLimitError(Exception):
    """The limit of work is reached."""


class _ValueMatcher:
    """One value on its way; `wrap` is False for what is to become an element of an array that is not written."""

    def __init__(self, steps: int) -> None:
        self._steps_left = steps
        self._cache: dict[tuple[Node, Expectation, bool], MatchResult] = {}
        self._parsed_strings: dict[Node, Node | None] = {}

    def match(self, node: Node, expectation: "Expectation", *, wrap: bool = True) -> MatchResult:
        if not expectation.shapes:
            return MISFIT if expectation.admits_nothing else FITS
        key = (node, expectation, wrap)
        found = self._cache.get(key)
        if found is None:
            self._spend(len(expectation.shapes))
            found = self._cache[key] = self._match_uncached(node, expectation, wrap=wrap)
        return found

    def _spend(self, steps: int) -> None:
        self._steps_left -= steps
        if self._steps_left < 0:
            raise _StepLimitError

    def _match_uncached(self, node: Node, expectation: "Expectation", *, wrap: bool) -> MatchResult:
        taking = [shape for shape in expectation.shapes if shape.admits(node.kind, node.value)]
        if not taking:
            return self._reinterpret(node, expectation, wrap=wrap)
        if node.kind not in CONTAINERS:
            return FITS
        return self._match_container(node, taking[0]) if len(taking) == 1 else self._match_first(node, taking)

    # Objects and arrays that are taken as such.

    def _match_first(self, node: Node, shapes: list[SchemaShape]) -> MatchResult:
        best = MISFIT
        for shape in shapes:
            if not self._may_match(node, shape):
                continue
            finding = self._match_container(node, shape)
            if finding.fits and finding.text is None:
                return finding
            if finding.fits and not best.fits:
                best = finding
        return best

    def _may_match(self, node: Node, shape: SchemaShape) -> bool:
        """Tell by keys and scalars alone, a discriminator among them, so that unions inside unions do not multiply."""
        if not shape.required.issubset(node.keys):
            return False
        self._spend(len(node.keys))
        return all(
            (child.kind == "null" and shape.drops_null(key))
            or (shape.admits_member(key) and (child.kind in CONTAINERS or self.match(child, shape.member(key)).fits))
            for key, child in zip(node.keys, node.children, strict=False)
        )

    def _match_container(self, node: Node, shape: SchemaShape) -> MatchResult:
        self._spend(len(node.children))
        return self._match_object(node, shape) if node.kind == "object" else self._match_array(node, shape)

    def _match_object(self, node: Node, shape: SchemaShape) -> MatchResult:
        fits = shape.required.issubset(node.keys)
        findings: list[MatchResult | None] = []
        for key, child in zip(node.keys, node.children, strict=True):
            if child.kind == "null" and shape.drops_null(key):
                findings.append(None)
                continue
            finding = self.match(child, shape.member(key))
            fits = fits and finding.fits and shape.admits_member(key)
            findings.append(finding)
        return _rewrite_container(node, findings, fits=fits)

    def _match_array(self, node: Node, shape: SchemaShape) -> MatchResult:
        findings = [self.match(child, shape.item(index)) for index, child in enumerate(node.children)]
        return _rewrite_container(node, findings, fits=all(finding.fits for finding in findings))

    # Values that no alternative takes as they are.

    def _reinterpret(self, node: Node, expectation: "Expectation", *, wrap: bool) -> MatchResult:
        for reading in _SCALAR_READINGS:
            for shape in expectation.shapes:
                for kind, value, text in reading(node, shape):
                    if shape.admits(kind, value):
                        return _change(node, text, fits=True)
        finding = self._parse_string(node, expectation)
        if finding is None and wrap:
            finding = self._wrap_in_array(node, expectation)
        return finding or MISFIT

    def _parse_string(self, node: Node, expectation: "Expectation") -> MatchResult | None:
        """Read an object or array that was written into a string."""
        if node.kind != "string":
            return None
        if node not in self._parsed_strings:
            begins = node.value.lstrip(" \t\r\n")[:1] in {"{", "["}
            self._parsed_strings[node] = scan(node.value, node.depth) if begins else None
        inner = self._parsed_strings[node]
        if inner is None or not expectation.admits(inner.kind, None):
            return None
        finding = self.match(inner, expectation)
        return _change(node, inner.text if finding.text is None else finding.text, fits=finding.fits)

    def _wrap_in_array(self, node: Node, expectation: "Expectation") -> MatchResult | None:
        """Put brackets around what would be an element; not around half an array or null, which is not one."""
        if node.kind in {"array", "null"} or (node.kind == "string" and node.value.lstrip().startswith("[")):
            return None
        for shape in expectation.shapes:
            if "array" in shape.kinds:
                finding = self.match(node, shape.item(0), wrap=False)
                if finding.fits:
                    return _change(node, f"[{finding.text or node.text}]", fits=True)
        return None


def _change(node: Node, text: str, *, fits: bool) -> MatchResult:
    return MatchResult(fits, text, (Coercion(node.pointer, load_json(node.text), load_json(text)),))


def _rewrite_container(
    node: Node, results: "list[MatchResult | None] | list[MatchResult]", *, fits: bool
) -> MatchResult:
    """Write an object or array anew around what changed inside it; None stands for a member that is left out."""
    if all(finding is not None and finding.text is None for finding in results):
        return FITS if fits else MISFIT
    source, pos = node.source, node.start + 1
    pieces: list[str] = []
    changes: list[Coercion] = []
    for child, finding in zip(node.children, results, strict=True):
        if finding is None:
            changes.append(Coercion(child.pointer, None, None))
        else:
            before = source[pos : child.start]
            if not pieces and pos > node.start + 1:
                before = before.replace(",", "", 1)  # the comma after the members that were left out
            pieces += (before, child.text if finding.text is None else finding.text)
            changes += finding.changes
        pos = child.end
    text = "".join((source[node.start], *pieces, source[pos : node.end]))
    return MatchResult(fits, text, tuple(changes))


# Scalars, read differently. Each gives what the value may have been meant to be; the first that is taken wins.


def _null_in_string(node: Node, _shape: SchemaShape) -> Iterator[Scalar]:
    if node.kind == "string" and node.value in _NULLS:
        yield "null", None, "null"


def _number_in_string(node: Node, _shape: SchemaShape) -> Iterator[Scalar]:
    found = _NUMBER.fullmatch(node.value) if node.kind == "string" and len(node.value) <= _MAX_NUMBER_DIGITS else None
    if found is not None and math.isfinite(float(found[0])):
        yield "fraction" if found[1] else "integer", load_json(found[0]), found[0]
        yield from _as_integer(found[0])


def _boolean_in_string(node: Node, _shape: SchemaShape) -> Iterator[Scalar]:
    if node.kind == "string" and node.value in _BOOLEANS:
        value = _BOOLEANS[node.value]
        yield "boolean", value, "true" if value else "false"


def _other_case(node: Node, shape: SchemaShape) -> Iterator[Scalar]:
    """Find the one admitted string that differs in letter case only."""
    alike = shape.find_ignoring_case(node.value) if node.kind == "string" else None
    if alike is not None:
        yield "string", alike, msgspec.json.encode(alike).decode()


def _integer_for_fraction(node: Node, _shape: SchemaShape) -> Iterator[Scalar]:
    if node.kind == "fraction":
        yield from _as_integer(node.text)


def _number_for_string(node: Node, _shape: SchemaShape) -> Iterator[Scalar]:
    if node.kind in {"integer", "fraction"}:
        yield "string", node.text, f'"{node.text}"'


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


_SCALAR_READINGS: tuple[Callable[[Node, SchemaShape], Iterator[Scalar]], ...] = (
    _null_in_string,
    _number_in_string,
    _boolean_in_string,
    _other_case,
    _integer_for_fraction,
    _number_for_string,
)
