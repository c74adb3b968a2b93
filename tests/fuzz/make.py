"""Create the document of a seed.

Rule: odd seeds give replies in any dialect, even seeds give replies in the default dialect.
"""

import random

from tests.fuzz import dialects, documents
from tests.fuzz.documents import Document


def make(seed: int) -> Document:
    """Create the document of a seed."""
    source = random.Random(seed)
    return dialects.make(seed, source) if seed % 2 else documents.make(seed, source)
