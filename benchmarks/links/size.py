"""How much of everything benchmarks.cluster uses, as shares of a broker's link, and the stories it tells.

Intuition: one machine carries brokers, clients and rheostat, and at 200 Mbit/s its two processors were what limited (82 to
90 % of them were used), not the links. So the links are slow, and everything that is counted in bytes is scaled with them: what
is left to the processors is rheostat's work, which does not grow with a link. A move takes about 100 s, for real ones take
hours: the seconds until there are signals of it, and the law's way up, are no more than a part of it.

Invariant: two sizes of one shape differ in their links alone; the clients' share of a link and the time for which one answer
holds it are the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.links.score import OURS, OURS_CALM, TOO_LOW, UNTHROTTLED
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
    """Bytes/s are payload as producers write it, before replication."""

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
        """Written to the topic that moves."""
        return _MOVED * self.link_bytes_per_s

    @property
    def burst_bytes_per_s(self) -> float:
        """In the middle of the move, to a partition led by its source."""
        return _BURST * self.link_bytes_per_s

    @property
    def rate_bytes_per_s_min(self) -> int:
        """rheostat's floor: what it is by default is a link."""
        return round(_FLOOR * self.link_bytes_per_s)

    @property
    def answer_bytes(self) -> int:
        """To a follower, of all partitions."""
        return round(_ANSWER_S * self.link_bytes_per_s)

    @property
    def fetch_bytes(self) -> int:
        """To a follower, of one partition."""
        return self.answer_bytes // _PARTITIONS_AN_ANSWER

    @property
    def record_bytes(self) -> int:
        """So that a full batch is what one fetch asks for. Of a batch that does not fit in any more a broker sends the beginning,
        which the follower throws away: with batches of seven eighths of a fetch that was an eighth of the link."""
        return self.fetch_bytes // _RECORDS_A_BATCH - _RECORD_OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class Step:
    """From then on, seconds after the move began, the burst is on or off."""

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


_ALL = (UNTHROTTLED, "static-25", "static-50", "static-75", "static-100", OURS, OURS_CALM)
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
            (TOO_LOW, OURS, OURS_CALM),
            of_steady_state=0.8,
            longest=2.0,
        ),
    )
}
