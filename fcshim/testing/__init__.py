"""For authors of parsers and of tests: replies on which parsers fail, mistakes that models make, small test cases.

Rule: `plugin` tests another parser by all of it; it imports pytest, the other modules do not.
"""

from fcshim.testing.conformance import ConformanceCase, ReaderResult, judge, load
from fcshim.testing.mutations.seeds import Seed, make_seed
from fcshim.testing.mutations.table import MUTATIONS, Mutant
from fcshim.testing.reader import MakeParser, TextParser, read
from fcshim.testing.shrinking import shrink
from fcshim.testing.splits import splits

__all__ = [
    "MUTATIONS",
    "ConformanceCase",
    "MakeParser",
    "Mutant",
    "ReaderResult",
    "Seed",
    "TextParser",
    "judge",
    "load",
    "make_seed",
    "read",
    "shrink",
    "splits",
]
