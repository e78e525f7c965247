"""Renders the tables of metrics from the metrics' definitions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from docs_build.page import cell, sentence
from streaming.shared.metric_defs import BY_PROCESS

# A name of a metric, a setting, a label's value or Kafka's default entity. Names of settings may have a value: `: off`.
_NAME = re.compile(r"(?<![`\w.])(?:<default>|[a-z][a-z0-9]*(?:[._][a-z0-9_]+)+(?:: off)?)")


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
            meaning = _NAME.sub(r"`\g<0>`", cell(metric.meaning))
            yield f"| `{metric.name}` | {metric.kind} | {labels} | {metric.unit} | {meaning} |"
