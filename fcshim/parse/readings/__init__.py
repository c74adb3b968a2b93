"""The readings of a damaged body: a search over named edits, cheapest first, and the verdict on what it finds."""
