"""Parses Kafka's metrics from Prometheus text. Pure.

Speed matters at a thousand nodes, and most of an agent's answer is about its JVM. So lines whose name does not begin with
``kafka_`` are skipped, canonical labels are cached, and the lags of followed partitions (thousands on a large broker) are read by
one regular expression.

Invariant: the result equals the result of a full parser, restricted to names with the prefix ``kafka_`` and finite values. If one
line with such a name cannot be read, the whole text is refused, because half a scrape would look like a node that lost its metrics.

Vocabulary:
    lag         messages that a replica is behind its leader (FetcherLagMetrics ConsumerLag), by (topic, partition), with the
                client id that reports it. Kafka's -1 means unknown and is left out. ``lags.py`` turns the lags into few samples.
    client id   name of a fetcher thread: ReplicaFetcherThread-<fetcher>-<source broker>; "" if the agent does not report it. Lags
                of the threads that copy between two disks of one broker are left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from streaming.shared.contract import Sample, TopicPartition, canonical_labels

PREFIX = "kafka_"
LAG = "kafka_server_fetcherlagmetrics_consumerlag"
FETCHED_BYTES = "kafka_server_fetcherstats_bytes_total"
_DISK_THREADS = "ReplicaAlterLogDirs"

# Name, labels, value, and a timestamp that is ignored.
_LINE = re.compile(
    rf"({PREFIX}[A-Za-z0-9_:]*)[ \t]*(?:\{{((?:[^\"\n}}]|\"(?:[^\"\\\n]|\\.)*\")*)\}})?[ \t]*(\S+)(?:[ \t]+-?\d+)?[ \t]*$"
)
# These patterns begin with a literal ("\n" and a name), for which re has a fast search. A lag in another form than that of
# conf/collectors/jmx-exporter.yaml is parsed like any other line.
_LAG_LINE = re.compile(
    rf'\n{LAG}{{clientid="([^"\\]*)",partition="(\d+)",topic="([^"\\]*)",?}} (-?[0-9.]+(?:E\d+)?)(?=\n)'
)
_LINES_WITHOUT_LAGS = re.compile(rf"\n{PREFIX}(?!{LAG.removeprefix(PREFIX)}[ \t{{])[^\n]*")
_ALL_LINES = re.compile(rf"\n{PREFIX}[^\n]*")
_LABEL = re.compile(r'[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|$)')
_NO_LAG = (0.0, "")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "\\": "\\", '"': '"'}


@dataclass(frozen=True, slots=True)
class Reading:
    """One answer of one agent."""

    samples: list[Sample]
    lags: dict[TopicPartition, tuple[float, str]]  # Lag and client id.
    fetched_bytes: dict[str, float] = field(default_factory=dict)  # Counter of each fetcher thread, by client id.


def parse(text: str) -> Reading:
    """Returns the Kafka metrics of a Prometheus text.

    Raises:
        ValueError: this is not Prometheus text, or a line of a Kafka metric is broken.
    """
    text = f"\n{text}\n"
    lag_lines = _LAG_LINE.findall(text)
    if len(lag_lines) == text.count(f"\n{LAG}"):  # Every lag has the usual form.
        lags = _lags(lag_lines)
        lines = _LINES_WITHOUT_LAGS.findall(text)
    else:
        lags, lines = {}, _ALL_LINES.findall(text)
    samples: list[Sample] = []
    lags_in_other_form: list[tuple[str, str, str, str]] = []
    fetched_bytes: dict[str, float] = {}
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
                lags_in_other_form.append(
                    (labels.get("clientid", ""), labels["partition"], labels["topic"], value_text)
                )
        elif name == FETCHED_BYTES:
            fetched_bytes[dict(_labels(label_text or "")).get("clientid", "")] = value
        else:
            samples.append(Sample(name, _canonical(label_text) if label_text else "", value))
    if lags_in_other_form:
        lags = _lags(lags_in_other_form)
    if not samples and not lags and not fetched_bytes and "# TYPE " not in text:
        raise ValueError(f"this is not Prometheus text: {text[1:81]!r}")
    return Reading(samples, lags, fetched_bytes)


def _lags(lines: Iterable[tuple[str, str, str, str]]) -> dict[TopicPartition, tuple[float, str]]:
    """Returns the lags by partition, without unknown lags (-1).

    Args:
        lines: client id, partition, topic and lag.
    """
    lags: dict[TopicPartition, tuple[float, str]] = {}
    for client_id, partition, topic, value in lines:
        key, lag = (topic, int(partition)), float(value)
        # A partition that changes its fetcher thread may be listed under both threads; the larger lag is the safe choice.
        if lag >= lags.get(key, _NO_LAG)[0] and not client_id.startswith(_DISK_THREADS):
            lags[key] = (lag, client_id)
    return lags


@lru_cache(maxsize=16_384)
def _canonical(label_text: str) -> str:
    """Returns the labels in canonical form. Prometheus treats an empty label as absent."""
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
