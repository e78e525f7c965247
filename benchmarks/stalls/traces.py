"""Labelled traces for stall detectors, generated from a seed: a fine-grained simulation, sampled every 1, 5 or 10 s.

The hard case for a detector is a healthy move that looks like a stall. So half of the traces are healthy, each with a disturbance;
the other half stall at a known second, and have such disturbances too.

Vocabulary:
    stall      from the first to the last second in which the move has at most 25 % of the drain that its throttle allows.
    thin       a throttle little above W: the healthy drain is small beside the writes, and comes in clumps of 11 s.
    hopeless   a throttle below W: the move falls behind for ever, yet a clump passes every 11 s.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from benchmarks.stalls.world import MB, Hold, Start, Tick, World, run
from streaming.shared.contract import MoveStep
from tuner.control.throttle.diagnosis.stall_detector import expected_drain_bytes_per_s
from tuner.core.throttle_limits import StallLimits

PERIODS_S = (1.0, 5.0, 10.0)
WELL = ("steady", "cycle", "thin", "hiccups", "isr_flaps", "batches", "rate_steps", "gaps", "noise", "slower", "ending")
STALLS = ("dead", "slow", "growing", "hopeless", "recovering")
WELL_S = 600.0
ONSET_S = (90.0, 210.0)
STALL_S = 180.0
HICCUP_S_MAX = 12.0


@dataclass(frozen=True, slots=True)
class Trace:
    kind: str
    source: str  # "made" or the name of the recording's file.
    stall_s: tuple[float, float] | None  # First and last second of the stall; None: well throughout.
    ticks: tuple[Tick, ...]
    gap_share: float = 0.0  # Of the looks that are missed.
    noise_bytes: float = 0.2 * MB  # Two logs are not read at the same instant.


@dataclass(frozen=True, slots=True)
class Sampled:
    """The input of a detector: steps, and the drain that the throttles allow in each."""

    trace: Trace
    steps: tuple[MoveStep, ...]
    expected_bytes_per_s: tuple[float, ...]


def made(seed: int, each: int) -> list[Trace]:
    """Returns ``each`` traces of every kind of stall, and as many healthy ones in total."""
    random_ = random.Random(seed)
    stalled = [_stalled(kind, random_) for kind in STALLS for _ in range(each)]
    well = [_well(WELL[i % len(WELL)], random_) for i in range(len(stalled))]
    return stalled + well


def sampled(trace: Trace, period_s: float, seed: int) -> Sampled:
    """Returns samples every ``period_s`` with a jitter of a tenth; some are missing."""
    random_ = random.Random(f"{seed} {period_s}")
    ticks, limits = trace.ticks, StallLimits()
    steps, expected = [], []
    before, before_noise = ticks[0], 0.0
    at_s = ticks[0].at_s + random_.uniform(0, period_s)
    i = 0
    while at_s <= ticks[-1].at_s:
        while i + 1 < len(ticks) and ticks[i + 1].at_s <= at_s:
            i += 1
        at_s += period_s * random_.uniform(0.9, 1.1)
        now = ticks[i]
        if random_.random() < trace.gap_share or now.at_s <= before.at_s:
            continue
        noise = random_.gauss(0, trace.noise_bytes) if trace.noise_bytes else 0.0
        gained = max(0.0, now.gained_bytes - before.gained_bytes + noise - before_noise)
        written = now.written_bytes - before.written_bytes
        steps.append(
            MoveStep(round(now.at_s * 1000), now.at_s - before.at_s, gained, written, max(0.0, now.remaining_bytes))
        )
        expected.append(expected_drain_bytes_per_s(now.surplus_bytes_per_s, [], limits))
        before, before_noise = now, noise
    return Sampled(trace, tuple(steps), tuple(expected))


# -- worlds ------------------------------------------------------------------------------------------------------------


def _constant(value: float) -> Callable[[float], float]:
    return lambda _: value


def _world(random_: random.Random, lasts_s: float) -> World:
    """Returns a healthy world with random writes, replicas and throttle."""
    write, counted = random_.uniform(0.5, 10) * MB, random_.choice((1, 2, 3))
    surplus = random_.uniform(2, 40) * MB
    return World(
        lasts_s=lasts_s,
        quota_bytes_per_s=_constant(counted * write + surplus),
        write_bytes_per_s=_constant(write),
        counted=counted,
        remaining_bytes=10 * lasts_s * 60 * MB,
        line_bytes_per_s=random_.uniform(100, 600) * MB,
        fetch_bytes=random_.choice((1, 2, 4, 10)) * 1_048_576,
        start=random_.choice(list(Start)),
    )


def _swinging(random_: random.Random, mean: float, share: float) -> Callable[[float], float]:
    """Returns a write rate that changes every two seconds."""
    values = [mean * random_.uniform(1 - share, 1 + share) for _ in range(600)]
    return lambda at_s: values[int(at_s / 2) % len(values)]


def _hiccups(random_: random.Random, until_s: float, every_s: float, of_surplus: float) -> tuple[Hold, ...]:
    found, at_s = [], random_.uniform(20, every_s)
    while at_s < until_s:
        lasts_s = random_.uniform(2, HICCUP_S_MAX)
        found.append(Hold(at_s, at_s + lasts_s, of_surplus, of_surplus))
        at_s += lasts_s + random_.uniform(0.5, 1.5) * every_s
    return tuple(found)


def _well(kind: str, random_: random.Random) -> Trace:
    world = _world(random_, WELL_S)
    write = world.write_bytes_per_s(0.0)
    steady_state = world.counted * write
    gap_share, noise_bytes = 0.02, 0.2 * MB
    if random_.random() < 0.5:  # A trouble seldom comes alone.
        world = replace(world, holds=_hiccups(random_, WELL_S, 90.0, 0.0))
    match kind:
        case "cycle":  # Silence and clump, at their strongest.
            world = replace(world, start=Start.BURST, fetch_bytes=10 * 1_048_576, line_bytes_per_s=600 * MB)
        case "thin":
            world = replace(world, quota_bytes_per_s=_constant(steady_state + random_.uniform(1, 2) * MB))
        case "hiccups":  # Garbage collection, a busy disk, a leader election.
            world = replace(world, holds=_hiccups(random_, WELL_S, 90.0, 0.0))
        case "isr_flaps":  # A follower falls out and comes back; what it catches up with uses the quota meanwhile.
            world = replace(world, holds=_hiccups(random_, WELL_S, 60.0, 0.3))
        case "batches":  # Partitions join: what remains jumps, and a new log begins with a burst of writes.
            world = replace(world, write_bytes_per_s=_batches(random_, write))
            peak = world.counted * write * 2
            world = replace(world, quota_bytes_per_s=_constant(peak + random_.uniform(4, 40) * MB))
        case "rate_steps":  # Another tool changes the throttle.
            world = replace(world, quota_bytes_per_s=_rate_steps(random_, steady_state))
        case "gaps":
            gap_share = 0.3
        case "noise":
            world = replace(world, write_bytes_per_s=_swinging(random_, write, 0.5))
            noise_bytes = 1.0 * MB
        case "slower":  # The hardware gives 70 % of what the throttle would.
            world = replace(world, holds=(*world.holds, Hold(0.0, WELL_S, 1.0, 0.7)))
        case "ending":
            surplus = world.quota_bytes_per_s(0.0) - steady_state
            world = replace(world, remaining_bytes=random_.uniform(60, 400) * surplus)
    return Trace(kind, "made", None, tuple(run(world)), gap_share, noise_bytes)


def _batches(random_: random.Random, write: float) -> Callable[[float], float]:
    joins = sorted(random_.uniform(30, WELL_S) for _ in range(5))
    return lambda at_s: write * (1 + sum(at_s >= join for join in joins) / 5)


def _rate_steps(random_: random.Random, steady_state: float) -> Callable[[float], float]:
    rates = [steady_state + random_.uniform(4, 40) * MB for _ in range(9)]
    return lambda at_s: rates[int(at_s / 75) % len(rates)]


def _stalled(kind: str, random_: random.Random) -> Trace:
    onset_s = round(random_.uniform(*ONSET_S), 1)
    ends_s = onset_s + (random_.uniform(75, 120) if kind == "recovering" else STALL_S)
    lasts_s = ends_s + (120.0 if kind == "recovering" else 0.0)
    world = _world(random_, lasts_s)
    write = world.write_bytes_per_s(0.0)
    steady_state = world.counted * write
    surplus = world.quota_bytes_per_s(0.0) - steady_state
    before = _hiccups(random_, onset_s - 30.0, 90.0, 0.0) if random_.random() < 0.5 else ()
    match kind:
        case "dead" | "recovering":
            world = replace(world, holds=(*before, Hold(onset_s, ends_s, 0.0, 0.0)))
        case "slow":
            world = replace(world, holds=(*before, Hold(onset_s, ends_s, 1.0, 0.25)))
        case "growing":
            world = replace(world, holds=(*before, Hold(onset_s, ends_s, 1.0, -random_.uniform(0.05, 0.6))))
        case "hopeless":  # Producers write more from now on, and keeping up takes all of the throttle.
            times = random_.uniform(1.15, 2.0) * (1 + surplus / steady_state)
            world = replace(
                world, write_bytes_per_s=lambda at_s: write * (times if at_s >= onset_s else 1.0), holds=before
            )
    gap_share = random_.choice((0.0, 0.05, 0.3))
    return Trace(kind, "made", (onset_s, ends_s), tuple(run(world)), gap_share)


def kinds_of(traces: Sequence[Trace]) -> list[str]:
    return list(dict.fromkeys(trace.kind for trace in traces))
