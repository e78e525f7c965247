"""Draws the table of claims on docs/explanation/performance.md from benchmarks/results; the text around it is written by hand.

python -m benchmarks.performance_page            write the page
python -m benchmarks.performance_page --check    exit 1 if the page is not current
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.claims import CLAIMS, Claim
from benchmarks.record import Record, read_records

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "performance.md"
BEGIN, END = "<!-- drawn by python -m benchmarks.performance_page -->\n", "<!-- end of the drawn table -->"


def draw(text: str) -> str:
    """Returns the page with a current table.

    Raises:
        ValueError: the page has no place for it.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no place for the table: put {BEGIN.strip()} and {END} around it")
    return before + begin + "".join(f"{line}\n" for line in _table()) + end + after


def _table() -> Iterator[str]:
    yield "| benchmark | figure | measured | bound | result | date, commit |"
    yield "|---|---|---:|---:|---|---|"
    for benchmark, claims in CLAIMS.items():
        records = read_records(benchmark)
        for claim in claims:
            newest = next((record for record in reversed(records) if claim.name in record["figures"]), None)
            yield f"| `{benchmark}` {_row(claim, newest)}"


def _row(claim: Claim, record: Record | None) -> str:
    bound = f"≤ {claim.at_most:g}" if claim.at_most is not None else ""
    bound = f"≥ {claim.at_least:g}" if claim.at_least is not None else bound
    if record is None:
        return f"| {claim.name} | – | {bound} | not measured yet | |"
    figure = record["figures"][claim.name]
    verdict = {True: "met", False: "**missed**", None: ""}[claim.is_met(figure)]
    return f"| {claim.name} | {_text(figure)} | {bound} | {verdict} | {record['date']}, {record['commit']} |"


def _text(figure: float) -> str:
    return f"{figure:,.0f}" if abs(figure) >= 1_000 else f"{figure:.4g}"


def main(arguments: list[str], page: Path = PAGE) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.performance_page", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page is not current")
    check = parser.parse_args(arguments).check
    text = page.read_text(encoding="utf-8")
    drawn = draw(text)
    if not check:
        page.write_text(drawn, encoding="utf-8")
    elif text != drawn:
        sys.stderr.write(f"{page} is not current: run `python -m benchmarks.performance_page` and commit the result\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
