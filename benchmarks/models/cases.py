"""The BFCL cases of the benchmark: which are for tuning, which for the test, and in which order they run.

Rule: a case belongs to the test if the number of its line in its file is divisible by 3. Prompts, defaults and rules
are never tuned on the replies to test cases.
"""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from fcshim.evaluate.bfcl import BFCL_CATEGORIES, BfclCase, load_bfcl

Split = Literal["test", "tuning"]


def is_test_case(case: BfclCase) -> bool:
    """Return whether a case belongs to the test."""
    return case.line % 3 == 0


def select_cases(
    folder: Path, split: Split, count: int | None, categories: Sequence[str] = BFCL_CATEGORIES
) -> list[BfclCase]:
    """Return the first `count` cases of a split, or all, evenly from the categories.

    The order within a category is that of a hash, since neighbours in a file resemble each other; a larger `count`
    extends a smaller one.
    """
    orders = [sorted(_of_split(folder, category, split), key=_hash) for category in categories]
    mixed = [case for row in zip_longest(*orders) for case in row if case is not None]
    return mixed[:count]


def _of_split(folder: Path, category: str, split: Split) -> Iterator[BfclCase]:
    return (case for case in load_bfcl(folder, category) if is_test_case(case) == (split == "test"))


def _hash(case: BfclCase) -> bytes:
    return hashlib.sha256(case.id.encode()).digest()
