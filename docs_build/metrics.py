"""Renders the tables of metrics from the metrics' definitions."""

from __future__ import annotations

from collections.abc import Iterator

from docs_build.page import cell, sentence
from streaming.shared.metric_defs import BY_PROCESS


def render_metrics() -> str:
    """Returns a table for each process."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    for process, metrics in BY_PROCESS.items():
        yield f"\n### {sentence(process)}\n"
        yield "| metric | kind | labels | unit | meaning |"
        yield "|---|---|---|---|---|"
        for metric in metrics:
            labels = ", ".join(metric.labels)
            yield f"| `{metric.name}` | {metric.kind} | {labels} | {metric.unit} | {cell(metric.meaning)} |"
