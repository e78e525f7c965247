"""Computes the wait of a well-behaved tenant from the share of the brokers' forwarding time that a storm takes.

Every broker forwards one request at a time. A request that changes something opens a batch or joins the open one. The batch is
written ``LINGER_S`` after it was opened (controller.quorum.append.linger.ms), and committed a little later. A request that changes
nothing (a refusal, or rheostat's probe) is answered at once, or with the previous batch if that is not committed yet. Requests
arrive at random times. The two well-behaved tenants are those of the benchmark: each creates one topic a second through two brokers
in turn, and then deletes one.

Invariant: at most one batch is open, and commits keep their order. The same seed gives the same result.

    python -m benchmarks.controllers.line_model
"""

from __future__ import annotations

import heapq
import itertools
import random
import sys
from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from benchmarks.controllers.figures import percentile

LINGER_S, COMMIT_S = 0.025, 0.007
_WAY_S = 0.0018  # Mean round trip, and mean time until a commit is seen; the rest is random.
BROKERS, CALM, PARTITIONS = 3, 2, 4
ASKS_PER_S, REFUSED_RATIO = 20.0, 0.36 * PARTITIONS  # Per admitted topic of a storm.
SECONDS = 4_000
RATES_PER_S = (0.0, 4.0, 8.0, 12.0, 18.0, 25.0, 36.0)


class Kind(Enum):
    CALM = "a well-behaved tenant's creation"
    CHANGES = "changes something"
    NOTHING = "changes nothing"


@dataclass(frozen=True, slots=True)
class Found:
    calm_p50_ms: float
    calm_p99_ms: float
    forwarding_busy_ratio: float  # By creations and deletions, refused ones too, and not by those who only ask.


@dataclass
class _Controller:
    rng: random.Random
    written_s: float = 0.0
    committed_s: float = 0.0

    def answered_s(self, kind: Kind, now_s: float) -> float:
        if kind is Kind.NOTHING:
            return max(now_s, self.committed_s)
        if now_s > self.written_s:
            self.written_s = now_s + LINGER_S
            self.committed_s = max(self.committed_s, self.written_s + COMMIT_S + self.rng.expovariate(1 / _WAY_S))
        return self.committed_s


@dataclass
class _Broker:
    waiting: deque[tuple[Kind, bool, float]] = field(default_factory=deque)
    is_busy: bool = False


def waits(storm_per_s: float, seconds: int = SECONDS, seed: int = 1) -> Found:
    """Returns the waits of the well-behaved tenants.

    Args:
        storm_per_s: partitions/s of the storm that the quotas admit.
    """
    rng = random.Random(seed)
    controller, brokers = _Controller(rng), [_Broker() for _ in range(BROKERS)]
    numbers = itertools.count()
    # When, a number, at which broker, of what kind, whether it counts as a creation or deletion, since when (None: it comes now).
    events: list[tuple[float, int, int, Kind, bool, float | None]] = []

    def comes(at_s: float, broker: int, kind: Kind, counts: bool) -> None:
        heapq.heappush(events, (at_s, next(numbers), broker, kind, counts, None))

    for rate, kind, counts in (
        (storm_per_s / PARTITIONS, Kind.CHANGES, True),
        (REFUSED_RATIO * storm_per_s / PARTITIONS, Kind.NOTHING, True),
        (ASKS_PER_S, Kind.NOTHING, False),
    ):
        at_s = 0.0
        while rate and (at_s := at_s + rng.expovariate(rate)) < seconds:
            comes(at_s, rng.randrange(BROKERS), kind, counts)
    for tenant, second in itertools.product(range(CALM), range(seconds)):
        comes(second + rng.random(), (tenant + second % 2) % BROKERS, Kind.CALM, True)

    took_ms, taken_s = list[float](), 0.0
    while events:
        now_s, _, number, kind, counts, since_s = heapq.heappop(events)
        broker = brokers[number]
        if since_s is None:
            broker.waiting.append((kind, counts, now_s))
        else:
            broker.is_busy = False
            if kind is Kind.CALM:
                took_ms.append(1000 * (now_s - since_s))
                comes(now_s, number, Kind.CHANGES, True)
        if broker.waiting and not broker.is_busy:
            broker.is_busy = True
            kind, counts, since_s = broker.waiting.popleft()
            ends_s = controller.answered_s(kind, now_s + rng.expovariate(1 / _WAY_S)) + rng.expovariate(1 / _WAY_S)
            taken_s += ends_s - now_s if counts else 0.0
            heapq.heappush(events, (ends_s, next(numbers), number, kind, counts, since_s))
    return Found(percentile(took_ms, 50) or 0.0, percentile(took_ms, 99) or 0.0, taken_s / seconds / BROKERS)


def main() -> int:
    alone = waits(0.0)
    sys.stdout.write(
        f"{'storm, partitions/s':>20}{'line taken, %':>15}{'beside alone, %':>17}{'p99, ms':>9}{'÷ alone':>9}\n"
    )
    for rate in RATES_PER_S:
        found = waits(rate)
        beside = found.forwarding_busy_ratio - alone.forwarding_busy_ratio
        sys.stdout.write(
            f"{rate:>20.0f}{100 * found.forwarding_busy_ratio:>15.1f}{100 * beside:>17.1f}{found.calm_p99_ms:>9.0f}"
            f"{found.calm_p99_ms / alone.calm_p99_ms:>9.2f}\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
