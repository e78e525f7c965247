"""One node's JMX agent: Prometheus text over HTTP → samples."""

from __future__ import annotations

import math
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from streaming.contract import Sample, canonical_labels

_OURS = "kafka_"  # The agent adds about a hundred series on its JVM, which nobody downstream reads.
_BYTES_MAX = 64 * 1024 * 1024


def scrape(url: str, timeout_s: float) -> list[Sample]:
    """The samples of one node.

    Raises:
        OSError: no answer within ``timeout_s``, or not 200.
        ValueError: the answer is not Prometheus text.
    """
    with urllib.request.urlopen(url, timeout=timeout_s) as answer:
        body: bytes = answer.read(_BYTES_MAX)
    return parse(body.decode("utf-8", errors="replace"))


def parse(text: str) -> list[Sample]:
    return [
        Sample(sample.name, canonical_labels({k: v for k, v in sample.labels.items() if v}), float(sample.value))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith(_OURS) and math.isfinite(sample.value)
    ]
