"""Converts a web page to Markdown in a separate process, which can be killed, with a limit on its memory.

Rule: it imports nothing of fcshim, so that it starts fast. Standard input is `{"html", "memory"}`; standard output is
`{"markdown"}` or `{"error"}`. Pages of line breaks, attributes or comments take the libraries minutes.
"""

import contextlib
import json
import re
import sys

MIN_ARTICLE = 200
"""Least characters of an article; a page with a shorter one is treated as a list or a form, and converted whole."""
_BLANK_LINES = re.compile(r"\n{3,}")


def main() -> None:
    """Convert one page."""
    request = json.load(sys.stdin.buffer)
    try:
        import markdownify  # noqa: F401, PLC0415 - before the limit, so that only the page's memory counts
        import readability  # noqa: F401, PLC0415

        with contextlib.suppress(ImportError, ValueError, OSError):
            import resource  # noqa: PLC0415 - not on Windows

            resource.setrlimit(resource.RLIMIT_AS, (request["memory"], request["memory"]))
        answer = {"markdown": _convert(request["html"])}
    except ImportError:
        answer = {"error": "Pages cannot be read here: pip install 'fcshim[tools]', or ask with raw."}
    except RecursionError:
        answer = {"error": "The page is nested too deeply to be read; ask with raw."}
    except MemoryError:
        answer = {"error": "The page needs too much memory to be read; ask with raw."}
    json.dump(answer, sys.stdout)


def _convert(html: str) -> str:
    title, article = _find_article(html)
    markdown = _to_markdown(article)
    if len(markdown) < MIN_ARTICLE and article is not html:
        markdown, title = _to_markdown(html), ""
    return f"# {title}\n\n{markdown}" if title and not markdown.startswith("# ") else markdown


def _find_article(html: str) -> tuple[str, str]:
    """Return the title and the article; the whole page if it has none."""
    from lxml.etree import LxmlError  # noqa: PLC0415 - optional libraries, whose absence is reported
    from readability import Document  # noqa: PLC0415
    from readability.readability import Unparseable  # noqa: PLC0415

    try:
        document = Document(html)
        return document.short_title(), document.summary(html_partial=True)
    except (Unparseable, LxmlError, ValueError, RecursionError):
        return "", html


def _to_markdown(html: str) -> str:
    from markdownify import markdownify  # noqa: PLC0415 - see above

    text = markdownify(html, heading_style="ATX", strip=["script", "style", "img"])
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", lines).strip()


if __name__ == "__main__":
    main()
