"""The edits that make a damaged text valid, and what each of them costs.

Rule: an edit is certain if what is delivered says what the model wrote. One that deletes more than commas, comments and
markup, or that could explain anything, is uncertain: no call with it is delivered, it only shows another reading.

Spellings with one meaning (single quotes, Python's words, comments, trailing commas, full-width signs) cost nothing.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Edit:
    """What is wrong with the text, what that costs, and whether a reading with this edit may be delivered.

    A model that makes a mistake of style makes it everywhere: it is charged once. Of the uncertain edits a reading has
    one, or one of style several times.
    """

    message: str
    cost: int
    is_certain: bool
    is_style: bool = False


NOT_ESCAPED = Edit("the quotes in a string are not escaped", 1, is_certain=True, is_style=True)
SKIPPED_END = Edit("a quote is content although its string may end there", 2, is_certain=True)
WORD = Edit("a string has no quotes", 1, is_certain=True, is_style=True)
UNKNOWN_KEY = Edit("a key is none of the tool's", 2, is_certain=True, is_style=True)
COMMA_MISSING = Edit("a comma is missing", 1, is_certain=True, is_style=True)
FULL_STOP = Edit("a full stop stands for a comma", 1, is_certain=True)
COLON_MISSING = Edit("a colon is missing", 1, is_certain=True)
END_MISSING = Edit("closing brackets are missing at the end", 1, is_certain=True, is_style=True)
BRACE_MISSING = Edit("an object is not closed before another bracket or object", 1, is_certain=True)
BRACKET_MISSING = Edit("an array is not closed before another bracket", 1, is_certain=True)
END_DOUBLED = Edit("closing brackets are left over at the end", 1, is_certain=True)

LONE_QUOTE = Edit("a quote in a string has no counterpart", 2, is_certain=False)
MIXED_ESCAPES = Edit("some of a string's quotes are escaped", 2, is_certain=False)
QUOTE_MISSING = Edit("a quote is missing", 2, is_certain=False, is_style=True)
WRONG_QUOTE = Edit("a quote is another character", 2, is_certain=False, is_style=True)
SWAPPED_QUOTE = Edit("a closing quote and the sign before it are swapped", 2, is_certain=False)
DOUBLED_QUOTES = Edit("the quotes of a string are doubled", 2, is_certain=False)
DAMAGED_KEY = Edit("a key, its quotes or its colon are damaged", 2, is_certain=False)
WRONG_COMMA = Edit("a comma is another character", 2, is_certain=False)
COMMA_AND_SPACE = Edit("a comma is missing between two values without a space", 3, is_certain=False)
WRONG_BRACKET = Edit("a bracket is another character", 2, is_certain=False)
INNER_BRACKET = Edit("a closing bracket is missing before a comma", 2, is_certain=False)
SURPLUS = Edit("a character is left over", 2, is_certain=False)
QUOTED_COMMENT = Edit("a comment holds a quote, so that a string may end in it", 2, is_certain=False)
JOINED = Edit("a string goes on after its quote, in another literal", 2, is_certain=False, is_style=True)
SECOND_VALUE = Edit("a member has two values, or an expression", 2, is_certain=False)
TEXT_AFTER = Edit("text follows the body", 2, is_certain=False)

UNCERTAIN_COST = 2
"""The least cost of an uncertain edit: a text without one is read first."""
MARGIN = 1
"""A reading counts if it costs at most this much more than the cheapest."""
MAX_COST = 4
"""A text whose cheapest reading costs more is not read."""
