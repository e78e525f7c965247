"""Models the bytes that a broker's replication quota has counted, and computes the rate to set so that a setpoint passes.

Kafka compares the throttle's rate with a mean over eleven whole seconds and the second in progress (replication.quota.window.num =
11, KIP-73). So in the next second, twelve times the rate may pass, minus the bytes of the last eleven seconds. The setpoint passes
in the next second if the rate is

    rate = (Σ of the last 11 s + setpoint) ÷ 12

At this rate a burst in the window does not stop the traffic of the next seconds, and does not return when its seconds leave the
window. If the window has fewer bytes than planned, the model treats the missing bytes as passed. A throttle passes a few per cent
less than its rate, because a delayed follower fetches again half a second later. If the model compensated for these bytes, the rate
would be changed again and again.

The window itself cannot be read. The stream reports the bytes of each step (a few seconds) some seconds late. For the seconds since
the newest step, the model computes ("replays") the bytes from the rates that were set.

Invariant: a measured step has priority over the replay. A small difference is attributed to the seconds that most likely caused it
(kalman_gain.py). A large difference has another cause than the throttle: the seconds of the step are scaled to the measured sum.

Terms:
    samples  replication.quota.window.num: how many whole seconds the quota remembers.
    planned  the rate if each second of the window had passed its setpoint: the mean of these setpoints and the next one. After a
             change of the setpoint the planned rate reaches the new setpoint in twelve seconds.
    flow     the highest rate at which bytes can arrive, whatever the throttle: the links or the other side limit it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tuner.control.throttle.quota_window.kalman_gain import kalman_gains
from tuner.core.value import value

SECONDS_KEPT = 32  # A window, and the seconds before it that a late signal may still correct.
_EARLIER_SECONDS_KEPT = SECONDS_KEPT - 1

# The largest error of a step, as a share of its modelled bytes, that the uneven seconds of a throttle explain. Bursts and echoes of
# a throttle change a step's sum by some per cent; other causes by more.
_THROTTLE_ERROR_RATIO_MAX = 0.25


@value
class QuotaSamples:
    """The last ``SECONDS_KEPT`` seconds of one side of one broker, oldest first.

    Attributes:
        until_ms: the end of the newest second; epoch.
        seconds: bytes that the quota counted in each second.
        rates: the throttle rate that was set in each second, bytes/s.
        setpoints: the bytes that should have passed in each second.
    """

    until_ms: int
    seconds: tuple[float, ...]
    rates: tuple[float, ...]
    setpoints: tuple[float, ...]

    def __post_init__(self) -> None:
        assert len(self.seconds) == len(self.rates) == len(self.setpoints)


def steady_window(now_ms: int, rate_bytes_per_s: float, passed_bytes_per_s: float | None = None) -> QuotaSamples:
    """Returns the window of a side that has had this rate for at least a whole window.

    Args:
        now_ms: the end of the newest second; epoch.
        rate_bytes_per_s: the throttle rate.
        passed_bytes_per_s: the bytes that passed in each second; None: not known, so the whole rate is assumed.
    """
    full = (rate_bytes_per_s,) * SECONDS_KEPT
    passed = full if passed_bytes_per_s is None else (passed_bytes_per_s,) * SECONDS_KEPT
    return QuotaSamples(now_ms, passed, full, full)


def advance(
    window: QuotaSamples,
    now_ms: int,
    rate_bytes_per_s: float,
    flow_bytes_per_s: float,
    samples: int,
    *,
    setpoint_bytes_per_s: float | None = None,
) -> QuotaSamples:
    """Returns the window with the whole seconds up to now replayed.

    Args:
        window: the previous window.
        now_ms: epoch.
        rate_bytes_per_s: the throttle rate that is set.
        flow_bytes_per_s: the highest rate at which bytes can arrive.
        samples: how many whole seconds the quota remembers.
        setpoint_bytes_per_s: the bytes that should pass in each of these seconds; None: the rate.
    """
    seconds, rates, setpoints, until_ms = window.seconds, window.rates, window.setpoints, window.until_ms
    # The same float object for every second saves memory: a large cluster keeps a hundred thousand seconds.
    if rates[-1] == rate_bytes_per_s:
        rate_bytes_per_s = rates[-1]
    setpoint = rate_bytes_per_s if setpoint_bytes_per_s is None else setpoint_bytes_per_s
    while until_ms + 1000 <= now_ms:
        until_ms += 1000
        passes = _bytes_that_pass(seconds, rate_bytes_per_s, flow_bytes_per_s, samples)
        seconds = (*seconds[-_EARLIER_SECONDS_KEPT:], passes)
        rates = (*rates[-_EARLIER_SECONDS_KEPT:], rate_bytes_per_s)
        setpoints = (*setpoints[-_EARLIER_SECONDS_KEPT:], setpoint)
    return QuotaSamples(until_ms, seconds, rates, setpoints)


def correct(
    window: QuotaSamples, at_ms: int, step_s: float, passed_bytes: float, flow_bytes_per_s: float, samples: int
) -> QuotaSamples:
    """Returns the window corrected by a measured step, with the seconds after the step replayed again.

    Args:
        window: the previous window; returned as it is if it does not contain the step.
        at_ms: the end of the step; epoch.
        step_s: length of the step.
        passed_bytes: measured bytes of the step.
        flow_bytes_per_s: the highest rate at which bytes can arrive.
        samples: how many whole seconds the quota remembers.
    """
    step = _step_indices(window, at_ms, step_s, samples)
    if step is None:
        return window
    begin, end = step
    modelled = window.seconds[begin:end]
    if _is_throttle_error(modelled, passed_bytes):
        gains = kalman_gains(samples, end - begin)
        first, error = end - len(gains), passed_bytes - sum(modelled)
        earlier, corrigible = window.seconds[:first], window.seconds[first:end]
        corrected = (max(0.0, second + gain * error) for second, gain in zip(corrigible, gains, strict=True))
        seconds = [*earlier, *corrected]
    else:
        seconds = [*window.seconds[:begin], *_scale(modelled, passed_bytes)]
    return replace(window, seconds=_replay_rest(window, seconds, flow_bytes_per_s, samples))


def correct_first_use(
    window: QuotaSamples,
    at_ms: int,
    step_s: float,
    passed_bytes: float,
    flow_bytes_per_s: float,
    samples: int,
    *,
    setpoint_bytes_per_s: float = 0.0,
) -> QuotaSamples:
    """Returns the window corrected by the first measured step of a throttle that was not used before.

    The contents of this window before the step are assumed. The first measured step shows which of two cases applies:

    - The throttle was unused for an hour, so Kafka has dropped its sensor. The mean then covers only the seconds since the first
      use, and the throttle lets its rate through from the first second on, as with a full window. All seconds of the window are set
      to the mean of the step.
    - The throttle was idle for less time. The bytes of a whole window pass at once (a burst).

    Args:
        window, at_ms, step_s, passed_bytes, flow_bytes_per_s, samples: as in ``correct``.
        setpoint_bytes_per_s: the current setpoint. The seconds of a burst get a setpoint of at most this. If the other
            side limits a young move, the planned rate would otherwise start near zero and stop the move while the window fills.
            Without a burst the argument has no influence.
    """
    step = _step_indices(window, at_ms, step_s, samples)
    if step is None:
        return window
    begin, end = step
    # In a burst clearly more bytes pass than the rates that were set in these seconds.
    burst = passed_bytes > (1.0 + _THROTTLE_ERROR_RATIO_MAX) * sum(window.rates[begin:end])
    if not burst and _is_throttle_error(window.seconds[begin:end], passed_bytes):
        return correct(window, at_ms, step_s, passed_bytes, flow_bytes_per_s, samples)
    mean = passed_bytes / (end - begin)
    setpoints_max: Sequence[float] = window.rates[end:]
    if burst:
        corrected = correct(window, at_ms, step_s, passed_bytes, flow_bytes_per_s, samples)
        setpoints_max = [max(rate, setpoint_bytes_per_s) for rate in setpoints_max]
        step_setpoints = (max(before, min(setpoint_bytes_per_s, mean)) for before in window.setpoints[begin:end])
        setpoints = (*window.setpoints[:begin], *step_setpoints)
    else:
        setpoints = (mean,) * end
        corrected = replace(window, seconds=_replay_rest(window, [*setpoints], flow_bytes_per_s, samples))
    # After the step, the setpoints were lowered to the flow that another limit seemed to allow. The measured bytes exceed that
    # flow, so the setpoints rise to the modelled bytes, at most to ``setpoints_max``.
    later_setpoints = [
        max(before, min(setpoint_max, passed))
        for before, setpoint_max, passed in zip(
            window.setpoints[end:], setpoints_max, corrected.seconds[end:], strict=True
        )
    ]
    return replace(corrected, setpoints=(*setpoints, *later_setpoints))


def window_mean_bytes_per_s(window: QuotaSamples, samples: int) -> float:
    """Returns the mean of the seconds that the quota remembers, in bytes/s."""
    samples = min(samples, SECONDS_KEPT)
    return sum(window.seconds[-samples:]) / samples


def rate_for_setpoint(
    window: QuotaSamples,
    setpoint_bytes_per_s: float,
    samples: int,
    *,
    compensation_range: float = float("inf"),
) -> float:
    """Returns the throttle rate (bytes/s) with which the setpoint passes in the next second.

    Args:
        window: the bytes that the quota has counted.
        setpoint_bytes_per_s: the bytes that should pass.
        samples: how many whole seconds the quota remembers.
        compensation_range: largest difference between the rate and the planned rate ÷ planned rate, because the model has errors.
    """
    samples = min(samples, SECONDS_KEPT)
    rate = (_sum_remembered(window.seconds, samples) + setpoint_bytes_per_s) / (samples + 1)
    planned = (_sum_remembered(window.setpoints, samples) + setpoint_bytes_per_s) / (samples + 1)
    # The second that leaves the window next is included: after a burst in this second, the other seconds have fewer bytes, but no
    # bytes are missing.
    missing = max(0.0, sum(window.setpoints[-samples - 1 :]) - sum(window.seconds[-samples - 1 :]))
    rate = max(rate, min(planned, rate + missing / (samples + 1)))
    return min((1.0 + compensation_range) * planned, max((1.0 - compensation_range) * planned, rate))


def _step_indices(window: QuotaSamples, at_ms: int, step_s: float, samples: int) -> tuple[int, int] | None:
    """Returns the indices of the first second of the step and of the second after it; None if the window is too short."""
    seconds_since = round((window.until_ms - at_ms) / 1000)
    end = len(window.seconds) - seconds_since
    begin = end - max(1, round(step_s))
    # Before the step the window has to contain all seconds that the quota remembers.
    return None if seconds_since < 0 or begin < samples else (begin, end)


def _is_throttle_error(modelled: Sequence[float], passed_bytes: float) -> bool:
    """Returns whether the measured sum is as close to the model as the uneven seconds of a throttle explain."""
    modelled_bytes = sum(modelled)
    return abs(passed_bytes - modelled_bytes) <= _THROTTLE_ERROR_RATIO_MAX * modelled_bytes


def _replay_rest(
    window: QuotaSamples, seconds: list[float], flow_bytes_per_s: float, samples: int
) -> tuple[float, ...]:
    """Returns ``seconds`` and all later ones, which are replayed with the rates that were set."""
    for rate in window.rates[len(seconds) :]:
        seconds.append(_bytes_that_pass(seconds, rate, flow_bytes_per_s, samples))
    return tuple(seconds)


def _sum_remembered(seconds: Sequence[float], samples: int) -> float:
    """Returns the sum over the whole seconds that the quota remembers, at most over the seconds that the model keeps."""
    return sum(seconds[-samples:])


def _bytes_that_pass(seconds: Sequence[float], rate_bytes_per_s: float, flow_bytes_per_s: float, samples: int) -> float:
    """Returns the bytes that pass in the next second after ``seconds``."""
    samples = min(samples, SECONDS_KEPT)
    room = rate_bytes_per_s * (samples + 1) - _sum_remembered(seconds, samples)
    return min(max(0.0, room), flow_bytes_per_s)


def _scale(modelled: Sequence[float], passed_bytes: float) -> list[float]:
    """Returns the modelled seconds scaled to the measured sum; even seconds if the model had nothing."""
    total = sum(modelled)
    if total <= 0.0:
        return [passed_bytes / len(modelled)] * len(modelled)
    return [second * passed_bytes / total for second in modelled]
