"""What a broker's quota window holds now, and the bound that lets just the wanted bytes through in the next second.

Intuition: the quota is a mean over eleven whole buckets of one second and the one that is being filled; a bucket is emptied
eleven seconds after its last drop, so what it held comes back twelve seconds after it began. Whoever writes "20 MB/s" means
the mean; what the next second lets through is twelve times that less what the last eleven have brought. So the bound that
gives a wanted second is

    bound = (Σ of the last 11 s + wanted) ÷ 12

and a burst that the window still holds neither silences the next seconds nor comes back as an echo. What it holds has to
be known: the stream tells the bytes of every step some seconds late, and what has come since is replayed with the bounds
that stood.

Invariant: a measured step is believed. Where it differs from the replay as a throttle's uneven seconds do, the difference goes
to the seconds that are likeliest to have brought it (echo.py); where it differs by more, something else than the throttle
was at work, and the seconds of the step have the measured sum.

Vocabulary:
    second   bytes that counted against the quota in one whole second; the newest is the last.
    bound    the rate that stood in that second.
    meant    the bytes that were to pass in it.
    planned  the bound if every second had brought what was meant: a line from one rate to another, twelve seconds long.
    samples  replication.quota.window.num: how many whole seconds the quota remembers.
    flow     bytes/s that can come at most, when the bound lets them: what the links or the other side allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tuner.control.throttle.quota_window.kalman_gain import shares
from tuner.core.value import value

SECONDS_KEPT = 32  # A window and the step before it, as late as signals may be before everything is held.
_OTHERS_KEPT = SECONDS_KEPT - 1

# Of what was replayed. Bursts and their echoes leave a step's sum within some per cent, what is not the throttle's does not.
_UNEVEN_RATIO_MAX = 0.25


@value
class QuotaSamples:
    """The last seconds of one side of one broker, oldest first, up to ``until_ms``."""

    until_ms: int
    seconds: tuple[float, ...]
    bounds: tuple[float, ...]
    meant: tuple[float, ...]

    def __post_init__(self) -> None:
        assert len(self.seconds) == len(self.bounds) == len(self.meant)


def steady(now_ms: int, rate_bytes_per_s: float, passed_bytes_per_s: float | None = None) -> QuotaSamples:
    """The window of a side that somebody has throttled to this rate; all of it has passed, where nothing else is known."""
    full = (rate_bytes_per_s,) * SECONDS_KEPT
    passed = full if passed_bytes_per_s is None else (passed_bytes_per_s,) * SECONDS_KEPT
    return QuotaSamples(now_ms, passed, full, full)


def advanced(
    window: QuotaSamples,
    now_ms: int,
    bound_bytes_per_s: float,
    flow_bytes_per_s: float,
    samples: int,
    *,
    meant_bytes_per_s: float | None = None,
) -> QuotaSamples:
    """Replays the whole seconds up to now with the bound that stands, and what was meant by it."""
    seconds, bounds, meant, until_ms = window.seconds, window.bounds, window.meant, window.until_ms
    if bounds[-1] == bound_bytes_per_s:
        bound_bytes_per_s = bounds[
            -1
        ]  # One object for all seconds of it: a large cluster keeps a hundred thousand seconds.
    as_meant = bound_bytes_per_s if meant_bytes_per_s is None else meant_bytes_per_s
    while until_ms + 1000 <= now_ms:
        until_ms += 1000
        passes = _passes(seconds, bound_bytes_per_s, flow_bytes_per_s, samples)
        seconds = (*seconds[-_OTHERS_KEPT:], passes)
        bounds = (*bounds[-_OTHERS_KEPT:], bound_bytes_per_s)
        meant = (*meant[-_OTHERS_KEPT:], as_meant)
    return QuotaSamples(until_ms, seconds, bounds, meant)


def corrected(
    window: QuotaSamples, at_ms: int, step_s: float, passed_bytes: float, flow_bytes_per_s: float, samples: int
) -> QuotaSamples:
    """The window, given that ``passed_bytes`` came in the ``step_s`` up to ``at_ms``; what came after is replayed anew."""
    spot = _step(window, at_ms, step_s, samples)
    if spot is None:
        return window
    begin, end = spot
    modelled = window.seconds[begin:end]
    if _as_a_throttle_does(modelled, passed_bytes):
        likely = shares(samples, end - begin)
        first, more = end - len(likely), passed_bytes - sum(modelled)
        told = [max(0.0, was + share * more) for was, share in zip(window.seconds[first:end], likely, strict=True)]
        seconds = [*window.seconds[:first], *told]
    else:
        seconds = [*window.seconds[:begin], *_scaled(modelled, passed_bytes)]
    return QuotaSamples(
        window.until_ms, _replayed(window, seconds, flow_bytes_per_s, samples), window.bounds, window.meant
    )


def first_seen(
    window: QuotaSamples,
    at_ms: int,
    step_s: float,
    passed_bytes: float,
    flow_bytes_per_s: float,
    samples: int,
    *,
    meant_bytes_per_s: float = 0.0,
) -> QuotaSamples:
    """As ``corrected``, of a step in which a throttle was first seen to be used: what its window held before is a guess.

    A throttle that nobody has used for an hour is new to Kafka, and its mean is of the seconds since. It lets its rate through
    from the first second on, as if its window had always held that; one that was merely idle lets a whole window through at
    once. Which of the two it was, the first step tells: where it was no burst, the window has held what passes.

    Args:
        meant_bytes_per_s: now. What has passed in a burst was meant to, up to that: where the other side paced a young move, the
            line to what is meant would else begin at nothing, and this side would close for seconds as its window fills.
    """
    spot = _step(window, at_ms, step_s, samples)
    if spot is None:
        return window
    begin, end = spot
    burst = passed_bytes > (1.0 + _UNEVEN_RATIO_MAX) * sum(window.bounds[begin:end])
    if not burst and _as_a_throttle_does(window.seconds[begin:end], passed_bytes):
        return corrected(window, at_ms, step_s, passed_bytes, flow_bytes_per_s, samples)
    mean = passed_bytes / (end - begin)
    most: Sequence[float] = window.bounds[end:]
    if burst:
        told = corrected(window, at_ms, step_s, passed_bytes, flow_bytes_per_s, samples)
        most = [max(bound, meant_bytes_per_s) for bound in most]
        line = (*window.meant[:begin], *(max(was, min(meant_bytes_per_s, mean)) for was in window.meant[begin:end]))
    else:
        line = (mean,) * end
        told = replace(window, seconds=_replayed(window, [*line], flow_bytes_per_s, samples))
    # What was thought to be held back by something else was meant to bring no more; what has passed says that it was not.
    since = map(max, window.meant[end:], map(min, most, told.seconds[end:]))
    return replace(told, meant=(*line, *since))


def held_bytes_per_s(window: QuotaSamples, samples: int) -> float:
    """The mean of what the window holds."""
    samples = min(samples, SECONDS_KEPT)
    return sum(window.seconds[-samples:]) / samples


def bound_for(
    window: QuotaSamples,
    setpoint_bytes_per_s: float,
    samples: int,
    *,
    play: float = float("inf"),
    unused_ratio: float = 0.0,
) -> float:
    """The rate to write so that ``wanted`` passes in the next second.

    Args:
        play: how far from the planned bound it may be, as a share of that: the replay is a model, and errs.
        unused_ratio: of any setting, what is never used. Where the window holds so much less than was meant, that is no room which
            the next second would fill.
    """
    samples = min(samples, SECONDS_KEPT)
    held = (_held(window.seconds, samples) + setpoint_bytes_per_s) / (samples + 1)
    planned = (_held(window.meant, samples) + setpoint_bytes_per_s) / (samples + 1)
    if held < planned and unused_ratio > 0.0 and setpoint_bytes_per_s > 0.0:
        # So much is not missing at all, and twice as much all of it; in between the one goes over into the other.
        used = min(planned, max(held, 2.0 * held - (1.0 - 2.0 * unused_ratio) * planned))
        # On the way to another rate, and until its echo is over, what is not used yet will be; sooner on the way down.
        off = sum(window.meant) / len(window.meant) / setpoint_bytes_per_s - 1.0
        even = max(0.0, 1.0 - (2.0 * off if off > 0.0 else -off) / unused_ratio)
        held += even * (used - held)
    return min((1.0 + play) * planned, max((1.0 - play) * planned, held))


def _step(window: QuotaSamples, at_ms: int, step_s: float, samples: int) -> tuple[int, int] | None:
    """Which of the seconds a step is, from the first to behind the last; None where the window does not reach so far."""
    newest = round((window.until_ms - at_ms) / 1000)
    end = len(window.seconds) - newest
    begin = end - max(1, round(step_s))
    return None if newest < 0 or begin < samples else (begin, end)


def _as_a_throttle_does(modelled: Sequence[float], passed_bytes: float) -> bool:
    """Whether what passed differs from the replay only as a throttle's own seconds do."""
    replayed_bytes = sum(modelled)
    return abs(passed_bytes - replayed_bytes) <= _UNEVEN_RATIO_MAX * replayed_bytes


def _replayed(window: QuotaSamples, seconds: list[float], flow_bytes_per_s: float, samples: int) -> tuple[float, ...]:
    """Those seconds, and all that come after them as the bounds that stood let them pass."""
    for bound in window.bounds[len(seconds) :]:
        seconds.append(_passes(seconds, bound, flow_bytes_per_s, samples))
    return tuple(seconds)


def _held(seconds: Sequence[float], samples: int) -> float:
    """What the window holds besides the second that begins; of a longer one than we keep, as much as we keep."""
    return sum(seconds[-samples:])


def _passes(seconds: Sequence[float], bound_bytes_per_s: float, flow_bytes_per_s: float, samples: int) -> float:
    samples = min(samples, SECONDS_KEPT)
    room = bound_bytes_per_s * (samples + 1) - _held(seconds, samples)
    return min(max(0.0, room), flow_bytes_per_s)


def _scaled(modelled: Sequence[float], passed_bytes: float) -> list[float]:
    """The shape of the replay with the measured sum; evenly where the replay had nothing."""
    total = sum(modelled)
    if total <= 0.0:
        return [passed_bytes / len(modelled)] * len(modelled)
    return [second * passed_bytes / total for second in modelled]
