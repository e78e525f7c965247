"""Changes num.replica.fetchers on a live cluster step by step, and restores the old value if a step does harm.

Kafka restarts all fetcher threads at each step. Therefore no partition may be moving, and the command watches the followers for a
while after each step. After a failed step, harm or Ctrl-C, the command restores the previous value through the same steps. There is
one exception: if partitions begin to move meanwhile, a further restart would disturb the move. The value of the current step then
stays. The effect of that step is not known, because the followers also lag because of the move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from streaming.shared.kafka.values import ClusterError
from streaming.shared.units import span_text
from tuner.core.fetchers import NUM_REPLICA_FETCHERS
from tuner.planning.fetcher_change import CLUSTER_DEFAULT, ConfigTarget, ResizePlan
from tuner.planning.fetcher_resize_monitor import FollowerSample, ResizeBaseline, find_harm, measure_baseline

SAMPLE_EVERY_S = 2.0
BASELINE_SAMPLES = 3
IN_FORCE_S_MAX = 15.0  # Brokers usually apply a change within half a second, but a busy broker needs longer.
FAILED_SAMPLES_MAX = 5
_PROGRESS_EVERY_S = 10.0


class FetcherSettingPort(Protocol):
    """The setting of the cluster, and the state of its followers."""

    def write_values(self, values: Mapping[ConfigTarget, int | None]) -> dict[ConfigTarget, str]:
        """Sets the value of each target, or removes it (None). Returns the targets that failed, with the error."""

    def read_values(self) -> dict[int, int]:
        """Returns the value in force by broker; brokers that do not answer are absent."""

    def sample_followers(self) -> FollowerSample:
        """Returns the state of all followers now.

        Raises:
            ClusterError: the cluster does not answer.
        """


class PollClock(Protocol):
    """A monotonic clock that can wait; tests replace it."""

    def now_s(self) -> float: ...

    def wait(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class ResizeOutcome:
    """The end of a change.

    Attributes:
        current: the value after the run.
        why: why the change was not done as requested; None if all brokers have reported the new value.
        restored: whether the previous value is in force again.
    """

    current: int
    changed: bool
    why: str | None = None
    restored: bool = False


class ResizeRun:
    """One change, from the first sample to the last step."""

    def __init__(
        self,
        port: FetcherSettingPort,
        plan: ResizePlan,
        observe_s: float,
        clock: PollClock,
        notify: Callable[[str], None],
        show_progress: Callable[[float], None],
    ) -> None:
        """
        Args:
            observe_s: how long to watch the followers after each step.
            notify: shows a line to the operator.
            show_progress: called with the completed share of all steps, from 0 to 1.
        """
        self._port = port
        self._plan = plan
        self._observe_s = observe_s
        self._clock = clock
        self._notify = notify
        self._show_progress = show_progress
        self._reached = plan.current  # The last value written, even if some brokers refused it.

    def run(self) -> ResizeOutcome:
        """Takes all steps, or restores the previous value after a problem."""
        plan, steps = self._plan, self._plan.steps
        samples = [self._port.sample_followers()]
        while len(samples) < BASELINE_SAMPLES and not samples[-1].moving:
            self._clock.wait(SAMPLE_EVERY_S)
            samples.append(self._port.sample_followers())
        if samples[-1].moving:
            return ResizeOutcome(plan.current, changed=False, why=_moving_text(samples[-1]))
        baseline = measure_baseline(samples)
        self._notify(f"Before: {_state_text(samples[-1])}, {baseline.messages_per_s:.0f} messages/s written.")
        try:
            for step, value in enumerate(steps):
                problem = self._set(value) or self._watch(baseline, step)
                if isinstance(problem, FollowerSample):
                    return ResizeOutcome(
                        value,
                        changed=True,
                        why=f"{_moving_text(problem)}. The reassignments began while the value {value} was being watched, so it is "
                        f"not known whether followers keep up with it. The value stays; `rheostat fetchers --apply --value "
                        f"{plan.current}` restores the previous value, once the reassignments are done",
                    )
                if problem is not None:
                    return self._restore(problem)
                is_last_step = step + 1 == len(steps)
                # A further step would disturb reassignments that began after the last sample of this step.
                if not is_last_step and (sample := self._try_sample()) is not None and sample.moving:
                    return ResizeOutcome(
                        value,
                        changed=True,
                        why=f"{_moving_text(sample)}. The value stays at {value}, with which no follower has fallen behind",
                    )
            self._clock.wait(0.0)  # Raises KeyboardInterrupt if Ctrl-C was pressed during the last sample.
        except BaseException as error:
            self._restore(f"interrupted ({type(error).__name__})")
            raise
        return ResizeOutcome(plan.desired, changed=True)

    # -- one step ------------------------------------------------------------------------------------------------------

    def _set(self, value: int) -> str | None:
        """Writes the value to all targets, and waits until the brokers report it. Returns the problem, or None."""
        self._reached = value
        self._notify(f"{NUM_REPLICA_FETCHERS}={value} on {targets_text(self._plan)}.")
        failed = self._port.write_values(dict.fromkeys(self._plan.targets, value))
        if failed:
            return "; ".join(f"{_target_text(target)}: {error}" for target, error in sorted(failed.items()))
        return self._await_in_force(value)

    def _await_in_force(self, value: int, *, must_answer: bool = True) -> str | None:
        """Waits until the value is in force on all brokers. Returns the problem, or None.

        Args:
            must_answer: whether a broker that does not answer is a problem. If False, such a broker is ignored.
        """
        until_s = self._clock.now_s() + IN_FORCE_S_MAX
        while True:
            values = self._port.read_values()
            expected = self._plan.brokers if must_answer else set(self._plan.brokers) & values.keys()
            different = sorted(b for b in expected if values.get(b) != value)
            if not different:
                return None
            if self._clock.now_s() >= until_s:
                shown = ", ".join(f"{b} ({values.get(b, 'no answer')})" for b in different)
                return f"not in force within {span_text(IN_FORCE_S_MAX)} on broker {shown}"
            self._clock.wait(0.5)

    def _watch(self, baseline: ResizeBaseline, step: int) -> str | FollowerSample | None:
        """Watches the followers for ``observe_s``.

        Args:
            step: the number of the step, from 0.

        Returns:
            The harm, as text; the first sample in which partitions are moving; or None if all is well.
        """
        samples: list[FollowerSample] = []
        failed_samples, began_s = 0, self._clock.now_s()
        printed_s = began_s
        while (passed_s := self._clock.now_s() - began_s) < self._observe_s:
            self._show_progress((step + passed_s / self._observe_s) / len(self._plan.steps))
            self._clock.wait(min(SAMPLE_EVERY_S, self._observe_s))
            sample = self._try_sample()
            failed_samples = failed_samples + 1 if sample is None else 0
            if failed_samples >= FAILED_SAMPLES_MAX:
                return "the cluster does not answer"
            if sample is None:
                continue
            if sample.moving:
                return sample
            samples.append(sample)
            if (harm := find_harm(baseline, samples)) is not None:
                return harm
            if self._clock.now_s() - printed_s >= _PROGRESS_EVERY_S:
                printed_s = self._clock.now_s()
                self._notify(
                    f"  watched for {span_text(printed_s - began_s)} of {span_text(self._observe_s)}: {_state_text(sample)}."
                )
        if samples:
            self._notify(
                f"  no follower has fallen behind after {span_text(self._observe_s)}: {_state_text(samples[-1])}."
            )
        return None

    def _try_sample(self) -> FollowerSample | None:
        """Returns a sample; None if the cluster does not answer."""
        try:
            return self._port.sample_followers()
        except ClusterError:
            return None

    # -- rollback ------------------------------------------------------------------------------------------------------

    def _restore(self, why: str) -> ResizeOutcome:
        """Restores the previous value at every target that can be reached, and reports the targets that cannot."""
        plan = self._plan
        self._notify(f"Restoring {plan.current}: {why}.")
        failed: dict[ConfigTarget, str] = {}
        for value in plan.rollback_steps(self._reached):
            failed |= self._port.write_values(dict.fromkeys(plan.targets, value))
            self._await_in_force(value, must_answer=False)
        had_no_value = [target for target, value in plan.targets.items() if value is None]
        if had_no_value:
            failed |= self._port.write_values(dict.fromkeys(had_no_value))
        problem = self._await_in_force(plan.current, must_answer=False)
        values = self._port.read_values()
        for broker in sorted(set(plan.brokers) - values.keys()):
            self._notify(f"Broker {broker} does not answer: its value is not known.")
        if failed or problem is not None:
            current = ", ".join(f"{b}: {value}" for b, value in sorted(values.items()))
            errors = (
                "; ".join(f"{_target_text(target)}: {error}" for target, error in sorted(failed.items())) or problem
            )
            return ResizeOutcome(
                self._reached,
                changed=True,
                why=f"{why}; and the previous value could not be restored everywhere ({errors}). Now in force, by broker: "
                f"{current}. Try again with `rheostat fetchers --apply --value {plan.current}`",
            )
        self._notify(f"{NUM_REPLICA_FETCHERS}={plan.current} is in force again, as before.")
        return ResizeOutcome(plan.current, changed=False, why=why, restored=True)


def targets_text(plan: ResizePlan) -> str:
    """Returns a text about the targets of the value: the cluster-wide default, and single brokers."""
    brokers = ", ".join(map(str, sorted(b for b in plan.targets if b != CLUSTER_DEFAULT)))
    if CLUSTER_DEFAULT not in plan.targets:
        return f"broker {brokers}, individually"
    and_brokers = f" and on broker {brokers}" if brokers else ""
    return f"the cluster's default{and_brokers} (for broker {', '.join(map(str, plan.brokers))})"


def _target_text(target: ConfigTarget) -> str:
    return "the cluster's default" if target == CLUSTER_DEFAULT else f"broker {target}"


def _moving_text(sample: FollowerSample) -> str:
    return f"{sample.moving} partitions are being reassigned, and every change restarts all fetcher threads"


def _state_text(sample: FollowerSample) -> str:
    return f"{sample.out_of_sync} partitions with a replica out of sync, {sample.behind} messages not yet on all in-sync replicas"
