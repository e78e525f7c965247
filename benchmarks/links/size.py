"""The sizes of benchmarks.cluster, as shares of a broker's link, and its scenarios.

One machine runs brokers, clients and rheostat. At 200 Mbit/s its two processors were the limit (82 to 90 % used), not the links.
Therefore the links are slow, and all byte rates are scaled with them. The remaining load is rheostat's own, which does not depend
on the links. A move takes about 100 s, because real ones take hours: the delay of the signals and the ramp must be a small part of
it.

Invariant: two sizes of one shape differ in their links only; the clients' share of a link, and the time that one response occupies
the link, are the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.links.score import OURS, OURS_AUTO, OURS_CALM, TOO_LOW, UNTHROTTLED
from tuner.core.throttle_limits import MB

# Of the link's nominal rate. A third of the clients' partitions are led by the source, so its way out carries a third of them.
_CLIENTS, _MOVED, _BURST, _FLOOR = 0.28, 0.02, 0.36, 0.04
# One answer to a follower holds the link for so long, as Kafka's own 10 MiB do with one of 6 Gbit/s.
_ANSWER_S = 0.013
_PARTITIONS_AN_ANSWER = 4
# What the producer reckons a record to need beside its value; the batch's own 61 bytes are in it.
_RECORDS_A_BATCH, _RECORD_OVERHEAD_BYTES = 8, 20


@dataclass(frozen=True, slots=True)
class Size:
    """Sizes for one link rate. Bytes/s are payload as producers send it, before replication."""

    link_mbit_per_s: float = 40.0
    moved_bytes: float = 400 * MB
    latency_ms: float = 50.0  # rheostat's objective.

    @property
    def link_bytes_per_s(self) -> float:
        return self.link_mbit_per_s * 1e6 / 8

    @property
    def clients_bytes_per_s(self) -> float:
        return _CLIENTS * self.link_bytes_per_s

    @property
    def moved_bytes_per_s(self) -> float:
        """The write rate of the moving topic."""
        return _MOVED * self.link_bytes_per_s

    @property
    def burst_bytes_per_s(self) -> float:
        """The write rate of the burst in the middle of the move, to a partition that the source leads."""
        return _BURST * self.link_bytes_per_s

    @property
    def rate_bytes_per_s_min(self) -> int:
        """rheostat's minimum rate; the default is as much as a link."""
        return round(_FLOOR * self.link_bytes_per_s)

    @property
    def answer_bytes(self) -> int:
        """The maximum size of a fetch response, all partitions together."""
        return round(_ANSWER_S * self.link_bytes_per_s)

    @property
    def fetch_bytes(self) -> int:
        """The maximum size of one partition in a fetch response."""
        return self.answer_bytes // _PARTITIONS_AN_ANSWER

    @property
    def record_bytes(self) -> int:
        """The record size at which a full batch has exactly the size of one fetch.

        If a batch does not fit, a broker sends its beginning, which the follower discards. With batches of seven eighths of a
        fetch that used an eighth of the link.
        """
        return self.fetch_bytes // _RECORDS_A_BATCH - _RECORD_OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class Step:
    """The burst starts or ends ``at_s`` seconds after the start of the move."""

    at_s: float
    on: bool


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    about: str
    policies: tuple[str, ...]
    steps: tuple[Step, ...] = ()
    # Every throttle begins at this share of what in-sync and new followers take to keep up: it never drains anything.
    of_steady_state: float | None = None
    longest: float = 6.0  # × T*; after that a run is ended as it is.


_ALL = (UNTHROTTLED, "static-25", "static-50", "static-75", "static-100", OURS, OURS_AUTO, OURS_CALM)
SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("steady", "the same load throughout", _ALL),
        Scenario(
            "steps",
            "clients take half of the link for 45 s in the middle",
            _ALL,
            steps=(Step(35.0, True), Step(80.0, False)),
        ),
        Scenario(
            "infeasible",
            "the operator's throttle is below what keeping up takes",
            (TOO_LOW, OURS, OURS_AUTO, OURS_CALM),
            of_steady_state=0.8,
            longest=2.0,
        ),
    )
}
