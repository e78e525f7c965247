"""Simulates one moving replica under Kafka's replication quota, second by second, for the generated traces.

The quota is a mean over 11 windows of 1 s, which is compared before a fetch and updated after it. This causes clumps that a
detector must not take for a stall: a clump, then silence until it leaves the windows. The simulation uses the same rule, so that
the clumps are real; the disturbances are added to it.

Vocabulary:
    W          steady-state replication: write rate × replicas that count on the throttled side.
    surplus    quota minus W: the drain that the throttle allows.
    room       bytes that may pass before the mean reaches the quota.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

TICK_S = 0.5  # replica.fetch.wait.max.ms: a throttled follower asks again so often.
WINDOWS = 11
STEADY_STATE_OVER_S = 30.0  # The signal's window, over which write rates are measured.
MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Hold:
    """From ``from_s`` to ``until_s`` the replica fetches at most writes × ``of_writes`` + surplus × ``of_surplus``."""

    from_s: float
    until_s: float
    of_writes: float
    of_surplus: float


class Start(Enum):
    """The contents of the quota windows at the start of the trace, on which all later clumps depend."""

    EVEN = "even"  # As after a ramp: little rhythm.
    IDLE = "idle"  # Keep-up traffic only, as when a leader-side throttle begins: a burst, then its echoes.
    BURST = "burst"  # All in one second: silence and clump, every 11 s.


@dataclass(frozen=True, slots=True)
class World:
    lasts_s: float
    quota_bytes_per_s: Callable[[float], float]  # Of the time since the start.
    write_bytes_per_s: Callable[[float], float]
    counted: (
        int  # Replicas of the partition whose bytes count: in-sync followers on the leader side, and the adding one.
    )
    remaining_bytes: float
    line_bytes_per_s: float
    fetch_bytes: float  # One response: partitions × 1 MiB, at most 10.
    start: Start
    holds: tuple[Hold, ...] = ()


@dataclass(frozen=True, slots=True)
class Tick:
    """Sums since the start, and the drain that the throttle allows at the measured writes."""

    at_s: float
    gained_bytes: float
    written_bytes: float
    remaining_bytes: float
    surplus_bytes_per_s: float


def run(world: World) -> list[Tick]:
    """Returns every tick until the end of the trace, or until nothing has remained for 5 s."""
    quota, write = world.quota_bytes_per_s(0.0), world.write_bytes_per_s(0.0)
    windows = _at_start(world, quota, world.counted * write)
    gained = written = 0.0
    remaining, done_s = world.remaining_bytes, 0.0
    written_at = [0.0]
    ticks = [Tick(0.0, 0.0, 0.0, remaining, quota - world.counted * write)]
    span = round(STEADY_STATE_OVER_S / TICK_S)
    for i in range(1, round(world.lasts_s / TICK_S) + 1):
        at_s = i * TICK_S
        quota, write = world.quota_bytes_per_s(at_s), world.write_bytes_per_s(at_s)
        if i % round(1 / TICK_S) == 0:
            windows = [*windows[1:], 0.0]
        new = write * TICK_S
        remaining += new
        written += new
        windows[-1] += (world.counted - 1) * new
        fetched = _fetch(world, at_s, quota, write, remaining, sum(windows))
        windows[-1] += fetched
        gained += fetched
        remaining -= fetched
        written_at.append(written)
        seen = min(i, span)
        measured = (written_at[i] - written_at[i - seen]) / (seen * TICK_S)
        ticks.append(Tick(at_s, gained, written, remaining, quota - world.counted * measured))
        done_s = done_s + TICK_S if remaining <= 2 * new else 0.0
        if done_s >= 5.0:
            break
    return ticks


def _at_start(world: World, quota: float, steady_state: float) -> list[float]:
    match world.start:
        case Start.EVEN:
            return [quota] * WINDOWS
        case Start.IDLE:
            return [steady_state] * WINDOWS
        case Start.BURST:
            return [steady_state] * (WINDOWS - 1) + [quota * WINDOWS]


def _fetch(world: World, at_s: float, quota: float, write: float, remaining: float, in_windows: float) -> float:
    room = quota * (WINDOWS - 0.5) - in_windows  # The mean is over ten whole windows and the part of the eleventh.
    if room < 0:
        return 0.0
    responses = int(room / world.fetch_bytes) + 1  # The last one passes whole: it is looked at before, not after.
    may = min(responses * world.fetch_bytes, world.line_bytes_per_s * TICK_S, remaining)
    for hold in world.holds:
        if hold.from_s <= at_s < hold.until_s:
            healthy = max(0.0, quota - world.counted * write)
            may = min(may, TICK_S * max(0.0, hold.of_writes * write + hold.of_surplus * healthy))
    return may
