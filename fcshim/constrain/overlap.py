"""Whether a value may satisfy several branches of a `oneOf`, which a grammar admits like an `anyOf`.

Rule: only what is certain counts as disjoint: other types, other listed values, another value of a required member.
"""

import itertools
from collections.abc import Sequence

from fcshim.constrain.keywords import Keywords, equality_key
from fcshim.events import JSON
from fcshim.schema.alternatives import Alternative

_MAX_ALTERNATIVES = 64
"""Alternatives of one union that are compared with each other; beyond it, they count as overlapping."""


def may_overlap(branches: Sequence[Sequence[Alternative]]) -> bool:
    """Return whether a value may satisfy two of the branches, each given by its alternatives."""
    if sum(map(len, branches)) > _MAX_ALTERNATIVES:
        return True
    read = [[Keywords(parts) for parts in branch] for branch in branches]
    return any(
        _overlap(one, other) for first, second in itertools.combinations(read, 2) for one in first for other in second
    )


def _overlap(one: Keywords, other: Keywords) -> bool:
    kinds = one.possible_kinds & other.possible_kinds
    if not kinds:
        return False
    if one.values is not None and other.values is not None:
        return _share_values(one.values, other.values)
    return kinds != {"object"} or not _is_discriminated(one, other)


def _is_discriminated(one: Keywords, other: Keywords) -> bool:
    """Return whether a member that both require has other values in each."""
    required = other.required_values
    return any(
        key in required and not _share_values(values, required[key]) for key, values in one.required_values.items()
    )


def _share_values(one: Sequence[JSON], other: Sequence[JSON]) -> bool:
    return not set(map(equality_key, one)).isdisjoint(map(equality_key, other))
