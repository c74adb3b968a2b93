"""Converts a web page to Markdown: its article, without navigation and margins.

Rule: text that is not HTML is unchanged; a page without an article is converted whole. Needs the extra `fcshim[tools]`.
"""

import re

from fcshim.errors import ToolError

_MIN_ARTICLE = 200
"""Characters of an article; with less the page is taken for a list or a form, and is converted whole."""
_BLANK_LINES = re.compile(r"\n{3,}")
_HTML_TYPES = ("text/html", "application/xhtml+xml")


def html_to_markdown(text: str, media_type: str, *, full_page: bool = False) -> str:
    """Convert a page to Markdown; `full_page` keeps menus and margins. Raises `ToolError` without the libraries."""
    if media_type not in _HTML_TYPES:
        return text
    try:
        from lxml.etree import LxmlError  # noqa: PLC0415 - an optional library
        from markdownify import markdownify  # noqa: PLC0415
        from readability import Document  # noqa: PLC0415
        from readability.readability import Unparseable  # noqa: PLC0415
    except ImportError as error:
        raise ToolError("Pages cannot be read here: pip install 'fcshim[tools]', or ask with raw.") from error
    title, article = "", text
    if not full_page:
        try:
            document = Document(text)
            title, article = document.short_title(), document.summary(html_partial=True)
        except (Unparseable, LxmlError, ValueError, RecursionError):
            pass
    try:
        made = _tidy(markdownify(article, heading_style="ATX", strip=["script", "style", "img"]))
    except RecursionError as error:
        raise ToolError("The page is nested too deeply to be read; ask with raw.") from error
    if len(made) < _MIN_ARTICLE and not full_page:
        return html_to_markdown(text, media_type, full_page=True)
    return f"# {title}\n\n{made}" if title and not made.startswith("# ") else made


def _tidy(text: str) -> str:
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", lines).strip()
