"""One run of one policy: a broker is stopped, wiped and started, and copies everything again.

All processes of rheostat run in every run; where rheostat may not act, its tuner is in a dry run. T* is that of the same run.
"""

from __future__ import annotations

import datetime
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field

from benchmarks.links.watch import Processors, awaited, say
from benchmarks.recoveries.lab import PASSING, RETURNING, STAYING, STORED, RecoveryLab
from benchmarks.recoveries.score import RecoveryPolicy, Row, phase_latency, worst_by_second
from rheostat.errors import CommandError
from streaming.shared import kafka_names
from streaming.shared.contract import Side
from streaming.shared.throttle_settings import LIST_KEYS, RATE_KEYS

SETTLE_S, BEFORE_S, AWAY_S, AFTER_S = 10.0, 20.0, 20.0, 10.0
CALM_RATIO = 0.5  # p99 ÷ objective, below which a run begins.
FORGET_WAIT_S_MAX = 150.0  # The longest wait for it.
LONGEST = 4.0  # × T*; after that a run is ended as it is.
LEFT_S_MAX = 60.0
_READY_S_MAX = 120.0
_LOOK_S = 0.2
_START_S_MAX = 60.0


@dataclass(slots=True)
class Course:
    """The recovery as it is observed, in seconds since the start of the broker's process."""

    at_s: list[float] = field(default_factory=list)
    copied_bytes: list[int] = field(default_factory=list)
    out_of_sync: list[int] = field(default_factory=list)
    leader_rates: list[int | None] = field(default_factory=list)
    follower_rates: list[int | None] = field(default_factory=list)
    alive_s: float | None = None
    first_fetch_s: float | None = None
    in_sync_s: float | None = None
    follower_rate_s: float | None = None  # When the returning broker has taken the static rate.

    def copied_within(self, span_s: float) -> int:
        """Returns the bytes that were copied within this time after the first fetch."""
        end_s = (self.first_fetch_s or 0.0) + span_s
        return max((c for t, c in zip(self.at_s, self.copied_bytes, strict=True) if t <= end_s), default=0)


class RecoveryRun:
    def __init__(self, lab: RecoveryLab, policy: RecoveryPolicy) -> None:
        self._lab = lab
        self._policy = policy

    def measured(self) -> Row:
        lab, policy = self._lab, self._policy
        lab.recover_at_full_speed()
        with ExitStack() as inside:
            lab.links.limit(lab.size.link_mbit_per_s)
            inside.callback(lab.links.unlimit)
            settings = {"recovery": "act"} if policy.acts else {}
            inside.callback(lab.tuner(acts=policy.acts, **settings).stop)
            awaited("rheostat is ready", lab.is_ready, _READY_S_MAX)
            lab.pause(SETTLE_S)
            return self._row()

    def _row(self) -> Row:
        lab, size = self._lab, self._lab.size
        began_s, links_before = time.monotonic(), lab.links.passed()[RETURNING]
        lab.pause(BEFORE_S)
        stopped_s = time.monotonic()
        clients = (lab.links.passed()[RETURNING].in_bytes - links_before.in_bytes) / (stopped_s - began_s)
        free = lab.capacity_bytes_per_s - clients
        lab.stop_and_wipe()
        lab.pause(AWAY_S)
        away_end_s = time.monotonic()
        if self._policy.acts:  # Other policies do not use the brokers' figures.
            lab.forget(CALM_RATIO * size.latency_ms, FORGET_WAIT_S_MAX)
        throttle = self._throttle(free, clients)
        lacking = lab.lacking_bytes()
        best_s = lacking / free
        processors = Processors()
        started_s = time.monotonic()
        lab.lab.start_again(RETURNING)
        course = self._watch(started_s, LONGEST * best_s, throttle)
        ended_s = time.monotonic()
        ours, machine = processors.shares(ended_s - started_s)
        lab.pause(AFTER_S)
        spans = {
            "before": (began_s, stopped_s),
            "away": (stopped_s, away_end_s),
            "recovering": (started_s, ended_s),
            "after": (ended_s, ended_s + AFTER_S),
        }
        latency = {phase: self._latency(phase, *span) for phase, span in spans.items()}
        keys_left = self._keys_left()
        first_s = course.first_fetch_s or 0.0
        took_s = (course.in_sync_s or ended_s - started_s) - first_s
        row: Row = {
            "policy": self._policy.name,
            "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "completed": course.in_sync_s is not None,
            "alive_s": course.alive_s,
            "first_fetch_s": first_s,
            "in_sync_s": round(took_s, 1),
            "optimum_s": round(best_s, 1),
            "ratio_to_optimum": round(took_s / best_s, 3),
            "ratio_of_first_3_s": round(course.copied_within(3.0) / (3.0 * free), 2),
            "copied_MB": {f"{s:g}": round(course.copied_within(s) / 1e6, 1) for s in (1, 2, 3, 5, 8, 12, 20, 30)},
            "latency": latency,
            "objective_ms": size.latency_ms,
            "throttle_bytes_per_s": throttle,
            "follower_rate_s": course.follower_rate_s,
            "link_mbit_per_s": size.link_mbit_per_s,
            "capacity_bytes_per_s": round(lab.capacity_bytes_per_s),
            "free_bytes_per_s": round(free),
            "lacking_bytes": lacking,
            "cpu_share": round(ours, 2),
            "machine_share": round(machine, 2),
            "keys_left": keys_left,
            "seconds": self._seconds(course, started_s),
        }
        say(
            f"{self._policy.name}: in sync {row['in_sync_s']} s after the first fetch, {row['ratio_to_optimum']} × T*; p99 "
            f"{latency['before']['p99_ms']} ms before, {latency['away']['p99_ms']} away, {latency['recovering']['p99_ms']} while "
            f"recovering; processors {ours:.0%} of {machine:.0%}"
        )
        return row

    def _throttle(self, free_bytes_per_s: float, clients_bytes_per_s: float) -> int | None:
        """Sets the static throttle as far as it can be set while the broker is down, and returns its rate.

        The lists are "*", so the replicas in sync use the throttle too: on a leader those of both followers.
        """
        share = self._policy.throttle_share
        if share is None:
            return None
        lab = self._lab
        rate = round(share * free_bytes_per_s + clients_bytes_per_s)
        everywhere = dict.fromkeys(LIST_KEYS.values(), kafka_names.ALL_REPLICAS)
        refused = lab.client.alter_topic_configs(dict.fromkeys((STORED, PASSING), everywhere))
        if any(refused.values()) or not lab.set_rates({b: {RATE_KEYS[Side.LEADER]: str(rate)} for b in STAYING}):
            raise CommandError(f"The static throttle was refused: {refused}")
        return rate

    def _watch(self, started_s: float, longest_s: float, throttle: int | None) -> Course:
        lab, course = self._lab, Course()
        next_rates_s = 0.0
        rates: dict[tuple[int, Side], int] = {}
        while True:
            now_s = round(time.monotonic() - started_s, 2)
            copied = lab.copied_bytes()
            if copied and course.first_fetch_s is None:
                course.first_fetch_s = now_s
            if course.alive_s is None and lab.is_alive():
                course.alive_s = now_s
            # A broker takes its own settings only while it is alive.
            waits = throttle is not None and course.follower_rate_s is None and course.alive_s is not None
            if waits and lab.set_rates({RETURNING: {RATE_KEYS[Side.FOLLOWER]: str(throttle)}}):
                course.follower_rate_s = now_s
            out_of_sync = lab.out_of_sync()
            if now_s >= next_rates_s:
                next_rates_s, rates = next_rates_s + 1.0, lab.rates()
            leaders = [rate for (_, side), rate in rates.items() if side is Side.LEADER]
            course.at_s.append(now_s)
            course.copied_bytes.append(copied)
            course.out_of_sync.append(out_of_sync)
            course.leader_rates.append(max(leaders) if leaders else None)
            course.follower_rates.append(rates.get((RETURNING, Side.FOLLOWER)))
            if not out_of_sync:
                course.in_sync_s = now_s
                return course
            if now_s > _START_S_MAX + longest_s or not lab.returning.alive():
                return course
            lab.pause(_LOOK_S)

    def _latency(self, phase: str, from_s: float, to_s: float) -> Row:
        acks = self._lab.acks(from_s, to_s)
        found = phase_latency([ack.latency_ms for ack in acks], self._lab.size.latency_ms)
        if found is None:
            raise CommandError(
                f"Only {len(acks)} acknowledgements in {to_s - from_s:.0f} s ({phase}): see the sampler's log."
            )
        return asdict(found)

    def _seconds(self, course: Course, started_s: float) -> list[Row]:
        """Returns what was seen in each second since the broker's start."""
        count = int(course.at_s[-1]) + 1
        acks = self._lab.acks(started_s, started_s + count)
        worst = worst_by_second([(ack.sent_s - started_s, ack.latency_ms) for ack in acks], count)
        rows = []
        for second in range(count):
            at = max((i for i, t in enumerate(course.at_s) if t <= second + 1), default=0)
            rows.append(
                {
                    "t_s": second + 1,
                    "copied_MB": round(course.copied_bytes[at] / 1e6, 2),
                    "out_of_sync": course.out_of_sync[at],
                    "leader_rate": course.leader_rates[at],
                    "follower_rate": course.follower_rates[at],
                    "worst_ms": None if worst[second] != worst[second] else round(worst[second], 1),
                }
            )
        return rows

    def _keys_left(self) -> int:
        """Returns the number of remaining throttle settings; rheostat removes them where it acts, otherwise the operator does."""
        lab = self._lab
        if self._policy.throttle_share is not None:
            lab.client.alter_topic_configs({topic: dict.fromkeys(LIST_KEYS.values()) for topic in (STORED, PASSING)})
            lab.set_rates({b: dict.fromkeys(RATE_KEYS.values()) for b in (*STAYING, RETURNING)})
        deadline_s = time.monotonic() + LEFT_S_MAX
        while (left := lab.keys_left()) and time.monotonic() < deadline_s:
            lab.pause(0.5)
        return left
