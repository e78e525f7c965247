"""Text reaches a terminal in one way: rheostat/console/rich_console.py makes the consoles, rheostat/console/output.py writes the plain lines."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
_OWN_TEXT_ONLY = {"tuner/simulation/__main__.py"}  # A tool for developers, which draws its worlds itself.
FILES = [
    path
    for package in ("rheostat", "tuner", "streaming")
    for path in sorted((ROOT / package).rglob("*.py"))
    if str(path.relative_to(ROOT)) not in _OWN_TEXT_ONLY
]
_CALLS = {"Console", "Text", "print", "echo", "secho", "rprint"}
_STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}
_HINT = re.compile(
    r"\b(Console|Text|print|s?echo|rprint)\(|\brich\b|markup|emoji|highlight|stdout|stderr|from_ansi|echo"
)
_ALLOWED = {
    "rheostat/console/rich_console.py": {"Text("},
    "rheostat/console/output.py": {"stdout.write", "stderr.write"},
}


def ways_around(tree: ast.AST) -> Iterator[str]:
    """Yields calls that would write to a terminal without escaping names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in (
            "rich.markup",
            "rich.prompt",
            "rich.pretty",
            "rich.traceback",
        ):
            yield node.module
        if isinstance(node, ast.keyword) and node.arg in ("markup", "emoji", "highlight") and not is_false(node.value):
            yield f"{node.arg}="
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in _CALLS:
            yield f"{called.id}("
        if isinstance(called, ast.Attribute):
            if called.attr in ("from_markup", "from_ansi", "echo", "secho"):
                yield f".{called.attr}("
            if (
                called.attr in ("write", "writelines")
                and isinstance(called.value, ast.Attribute)
                and called.value.attr in _STREAMS
            ):
                yield f"{called.value.attr}.{called.attr}"


def is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def test_terminal_text_is_printed_only_through_console() -> None:
    found = {
        str(path.relative_to(ROOT)): set(ways_around(ast.parse(path.read_text())))
        for path in FILES
        if _HINT.search(path.read_text())
    }
    around = {path: ways - _ALLOWED.get(path, set()) for path, ways in found.items()}
    assert {path: ways for path, ways in around.items() if ways} == {}
    assert len(FILES) > 300


@pytest.mark.parametrize(
    "code",
    [
        "Console()", "rich.text.Text.from_markup(x)", "Text(x)", "print(x)", "sys.stdout.write(x)", "typer.echo(x)",
        "console.print(x, markup=True)", "from rich.markup import render", "console.print(x, highlight=True)",
    ],
)  # fmt: skip
def test_terminal_rule_finds_direct_output(code: str) -> None:
    assert _HINT.search(code)
    assert list(ways_around(ast.parse(code)))
