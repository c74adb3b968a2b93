"""Words that say that a call is an example: a line before it (`Example:`), or what precedes it in its line (`e.g.`).

Rule: a line whose last sentence only announces an example makes the call after it one, if text follows the call.
Before a call that ends the reply, models write such lines too. A sentence that says more announces nothing.
"""

import re

_PHRASE = (
    r"(?:for example|for instance|such as|e\.\s?g\.?|zum beispiel|z\.\s?b\.|par exemple|por ejemplo|por exemplo"
    r"|per esempio|например|例如|比如|例えば|예를 들어)"
)
_KINDS = "simple|full|short|tool|function|calls?|calling|usage|use|output|input|request|response|json|xml"
_BEFORE = (
    rf"here(?:['’]s| is| are)|this is|below is|begin|start|an?|the|some|another|one|good|bad|wrong|correct|{_KINDS}"
)
_AFTER = rf"\d{{1,3}}|of|for|how|to|start|begin|an?|the|format|{_KINDS}"
_EXAMPLE = (
    rf"(?:(?:{_BEFORE})\s+){{0,5}}(?:examples?|samples?)(?:\s+(?:{_AFTER})){{0,6}}(?:\s?[:.–—-]\s.{{1,48}})?"
    rf"|(?:(?:the|correct|proper|general|expected|required|{_KINDS})\s+){{0,4}}(?:format|syntax|template|usage)"
    r"(?:\s+(?:is|would be|is as follows|looks like(?: this)?))?"
    rf"|an?\s(?:(?:{_KINDS})\s){{1,3}}(?:looks|would look|is written) like (?:this|that)"
    r"|beispiele?|exemples?|ejemplos?|exemplos?|esempio|пример|示例|例子|例|예시|예"
)
_ANNOUNCEMENT = re.compile(
    rf"[^:]{{0,72}}?\b{_PHRASE}"
    rf"|(?:.{{0,94}}[.!?]\s)?(?:{_EXAMPLE})"
    r"|\.\.\s(?:code-block|code|sourcecode|parsed-literal)(?:::.{0,32})?"
    r"|wrong|incorrect|invalid|bad|correct|not like this",
    re.IGNORECASE,
)
"""A line that says nothing else at its end but that an example follows, without its decoration."""
_DECORATION = " \t\r#*=_-~[]():：,，"
_INLINE_ANNOUNCEMENT = re.compile(rf"(?:.*\b{_PHRASE}[:,]?|\s*[❌✗✘])\s?\Z", re.IGNORECASE)


def announces_example(line: str) -> bool:
    """Return whether a whole line says nothing but that an example follows."""
    return _ANNOUNCEMENT.fullmatch(line.strip(_DECORATION)) is not None


def introduces_example(head: str) -> bool:
    """Return whether the words before a call in its line say that it is an example."""
    return _INLINE_ANNOUNCEMENT.match(head) is not None
