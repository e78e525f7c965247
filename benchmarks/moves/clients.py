"""Measures clients of real brokers between two marks: the bytes that brokers take from producers, and the latency of records."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.links.watch import sum_on_page
from benchmarks.moves.writing import Writer
from tuner.simulation.client_phases import ClientPhase, measured_phase

_PRODUCED = re.compile(r"^kafka_server_brokertopicmetrics_bytesin_total (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mark:
    """A time of the monotonic clock, and the bytes that brokers have taken from producers until then."""

    at_s: float
    produced_bytes: float


class ClientWatch:
    def __init__(self, writer: Writer, broker_metrics_urls: Sequence[str]) -> None:
        self._writer = writer
        self._urls = broker_metrics_urls

    def mark(self) -> Mark:
        return Mark(time.monotonic(), sum(sum_on_page(url, _PRODUCED) for url in self._urls))

    def phase(self, begin: Mark, end: Mark) -> ClientPhase | None:
        """Returns the clients between two marks; None if too few records were acknowledged."""
        produced_bytes_per_s = (end.produced_bytes - begin.produced_bytes) / (end.at_s - begin.at_s)
        return measured_phase(self._writer.latencies_ms(begin.at_s, end.at_s), produced_bytes_per_s)
