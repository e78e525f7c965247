"""Prometheus text → what of it is Kafka's. Pure.

Intuition: an agent's answer is mostly about its JVM, and at a thousand nodes every line that is looked at closely costs. So
lines of other names are never taken apart, label texts are made canonical once and remembered, and the lags of followed
partitions, thousands on a big broker, are read by one expression.

Invariant: what is returned equals what a full parser returns for the same text, restricted to our names and finite values.
A line of ours that cannot be read refuses the whole text; half a scrape would look like a node that lost its metrics.

Vocabulary:
    lag   messages a replica is behind its leader (FetcherLagMetrics ConsumerLag), by (topic, partition). It never leaves
          the collector as such: facts.py folds it. -1 is Kafka's "not yet known", and left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from streaming.shared.contract import Sample, canonical_labels

OURS = "kafka_"
LAG = "kafka_server_fetcherlagmetrics_consumerlag"

_LINE = re.compile(
    rf"({OURS}[A-Za-z0-9_:]*)[ \t]*(?:\{{((?:[^\"\n}}]|\"(?:[^\"\\\n]|\\.)*\")*)\}})?[ \t]*(\S+)(?:[ \t]+-?\d+)?[ \t]*$"
)
# Each begins with a line's end and a word: such a beginning is searched for as a whole, not tried at every character.
# A lag as the agent writes it under our rules; one that looks otherwise sends the text the long way.
_LAG_LINE = re.compile(
    rf'\n{LAG}{{clientid="[^"\\]*",partition="(\d+)",topic="([^"\\]*)",?}} (-?[0-9.]+(?:E\d+)?)(?=\n)'
)
_NOT_LAG = re.compile(rf"\n{OURS}(?!{LAG.removeprefix(OURS)}[ \t{{])[^\n]*")
_ALL = re.compile(rf"\n{OURS}[^\n]*")
_LABEL = re.compile(r'[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|$)')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "\\": "\\", '"': '"'}


@dataclass(frozen=True, slots=True)
class Reading:
    """One answer of one agent."""

    samples: list[Sample]
    lags: dict[tuple[str, int], float]


def parse(text: str) -> Reading:
    """
    Raises:
        ValueError: this is not Prometheus text, or a line of ours is broken.
    """
    text = f"\n{text}\n"
    found = _LAG_LINE.findall(text)
    if len(found) == text.count(f"\n{LAG}"):
        lags = _lags((topic, int(partition), float(value)) for partition, topic, value in found)
        lines = _NOT_LAG.findall(text)
    else:
        lags, lines = {}, _ALL.findall(text)
    samples: list[Sample] = []
    slow: list[tuple[str, int, float]] = []
    for line in lines:
        match = _LINE.match(line, 1)
        if match is None:
            raise ValueError(f"a line that is not Prometheus text: {line[1:121]!r}")
        name, label_text, value_text = match.groups()
        value = float(value_text)
        if not math.isfinite(value):
            continue
        if name == LAG:
            labels = dict(_labels(label_text or ""))
            if "topic" in labels and labels.get("partition", "").isdigit():
                slow.append((labels["topic"], int(labels["partition"]), value))
        else:
            samples.append(Sample(name, _canonical(label_text) if label_text else "", value))
    if slow:
        lags = _lags(slow)
    if not samples and not lags and "# TYPE " not in text:
        raise ValueError(f"this is not Prometheus text: {text[1:81]!r}")
    return Reading(samples, lags)


def _lags(found: Iterable[tuple[str, int, float]]) -> dict[tuple[str, int], float]:
    lags: dict[tuple[str, int], float] = {}
    for topic, partition, value in found:
        # While a partition passes from one fetcher to another it may stand under both; the worse one is the careful answer.
        if value >= lags.get((topic, partition), 0):
            lags[(topic, partition)] = value
    return lags


@lru_cache(maxsize=16_384)
def _canonical(label_text: str) -> str:
    return canonical_labels({key: value for key, value in _labels(label_text) if value})


def _labels(label_text: str) -> list[tuple[str, str]]:
    at, labels = 0, []
    text = label_text.strip()
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None:
            raise ValueError(f"labels that are not Prometheus text: {{{label_text[:120]}}}")
        value = match[2]
        labels.append((match[1], _ESCAPE.sub(_unescape, value) if "\\" in value else value))
        at = match.end()
    return labels


def _unescape(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[0])
