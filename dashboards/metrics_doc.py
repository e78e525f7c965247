"""Writes the table of metrics in docs/reference/metrics.md, from their definitions; what stands around it is written by people.

python -m dashboards.metrics_doc            write it
python -m dashboards.metrics_doc --check    exit 1 when the committed table is not what this program would write
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from streaming.shared.metric_defs import BY_PROCESS

DOC = Path(__file__).parents[1] / "docs" / "reference" / "metrics.md"
BEGIN, END = "<!-- made by python -m dashboards.metrics_doc -->", "<!-- end of what is made -->"


def table() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    for process, metrics in BY_PROCESS.items():
        yield f"\n### {process[:1].upper()}{process[1:]}\n"
        yield "| metric | kind | labels | unit | meaning |"
        yield "|---|---|---|---|---|"
        for metric in metrics:
            labels = ", ".join(metric.labels)
            yield f"| `{metric.name}` | {metric.kind} | {labels} | {metric.unit} | {metric.meaning} |"
    yield ""


def current(text: str) -> str:
    """The document with the table as it is now.

    Raises:
        ValueError: it has no place for it.
    """
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return f"{text[:begin]}\n{table()}\n{text[end:]}"


def main(arguments: list[str] | None = None, doc: Path = DOC) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m dashboards.metrics_doc", description="Writes the table of metrics."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the table is not current")
    wants_check = parser.parse_args(arguments).check
    text = doc.read_text(encoding="utf-8")
    wanted = current(text)
    if not wants_check:
        doc.write_text(wanted, encoding="utf-8")
        sys.stdout.write(f"wrote {doc}\n")
        return 0
    if text == wanted:
        return 0
    sys.stderr.write(f"{doc} is not current: run `python -m dashboards.metrics_doc` and commit the result\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
