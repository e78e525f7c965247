"""Renders docs/reference/runbook.md as the page that the tuner serves at /runbook. Alerts and panels link to it.

The page is committed, so that the tuner needs no Markdown parser.

    python -m dashboards.runbook_page            write it
    python -m dashboards.runbook_page --check    exit 1 when the committed page is not what this program would write
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

# The address if the tuner runs beside Prometheus and Grafana, as in conf/. Other addresses: docs/reference/alerts.md.
PAGE_AT = "http://localhost:9464"
RUNBOOK_AT = f"{PAGE_AT}/runbook"
_ROOT = Path(__file__).parents[1]
SOURCE = _ROOT / "docs" / "reference" / "runbook.md"
PAGE = _ROOT / "tuner" / "api" / "page" / "runbook.html"
_FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>rheostat: runbook</title>
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/static/page.css">
</head>
<body class="runbook">
<main>
{body}</main>
</body>
</html>
"""


def anchor(heading: str) -> str:
    """Returns the anchor that GitHub and the site give to a heading of one word."""
    return heading.lower()


def rendered(text: str) -> str:
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(text)
    for i, token in enumerate(tokens):
        if token.type == "heading_open" and token.tag == "h2":
            token.attrSet("id", anchor(tokens[i + 1].content))
        if token.children is not None:
            token.children = list(_own_links(token.children))
    return _FRAME.format(body=markdown.renderer.render(tokens, markdown.options, {}))


def _own_links(tokens: Sequence[Token]) -> Iterator[Token]:
    """Keeps links between sections. The tuner serves no other file of the repository, so other links become paths."""
    path: str | None = None
    for token in tokens:
        if token.type == "link_open" and not str(token.attrs["href"]).startswith("#"):
            path = (SOURCE.parent / str(token.attrs["href"])).resolve().relative_to(_ROOT).as_posix()
        elif token.type == "link_close" and path is not None:
            yield Token("text", "", 0, content=" (")
            yield Token("code_inline", "code", 0, content=path)
            yield Token("text", "", 0, content=")")
            path = None
        else:
            yield token


def main(arguments: list[str] | None = None, page: Path = PAGE) -> int:
    parser = argparse.ArgumentParser(prog="python -m dashboards.runbook_page", description="Writes the runbook's page.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the page is not current")
    wants_check = parser.parse_args(arguments).check
    wanted = rendered(SOURCE.read_text(encoding="utf-8"))
    if not wants_check:
        page.write_text(wanted, encoding="utf-8")
        sys.stdout.write(f"wrote {page}\n")
        return 0
    if page.exists() and page.read_text(encoding="utf-8") == wanted:
        return 0
    sys.stderr.write(f"{page} is not current: run `python -m dashboards.runbook_page` and commit the result\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
