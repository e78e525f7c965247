"""A change of num.replica.fetchers on a live cluster, step by step, each looked at before the next; all the way back if it harms.

Kafka starts every fetcher thread anew at each step, so nothing else should move meanwhile, and whoever asked for it should see that
followers keep up. Whatever ends it early, Ctrl-C as well, puts back what stood, through the same steps; only where partitions began
to move meanwhile it stays at the step that it had reached, as a further change would disturb them, and says whether that one was
found well: what followers lack while partitions move is not the threads' doing, so nobody can tell.
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

LOOK_EVERY_S = 2.0
LOOKS_BEFORE = 3
SHOWN_S_MAX = 15.0  # Within half a second all brokers have a change that is committed; one of them may be busy.
BLIND_LOOKS_MAX = 5
_SAID_EVERY_S = 10.0


class FetcherSettingPort(Protocol):
    """The cluster, as far as this needs it."""

    def write(self, values: Mapping[ConfigTarget, int | None]) -> dict[ConfigTarget, str]:
        """Sets the value at each place, or removes what stands there (None); returns what failed, with the reason."""

    def read(self) -> dict[int, int]:
        """What is in force, by broker; those that do not answer are absent."""

    def look(self) -> FollowerSample:
        """
        Raises:
            ClusterError: the cluster is not seen.
        """


class PollClock(Protocol):
    def now_s(self) -> float: ...

    def wait(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended. ``why`` says why not as asked; None: as asked, and read back."""

    stands: int
    changed: bool
    why: str | None = None
    put_back: bool = False


class ResizeRun:
    def __init__(
        self,
        knob: FetcherSettingPort,
        change: ResizePlan,
        settle_s: float,
        clock: PollClock,
        say: Callable[[str], None],
        watched: Callable[[float], None],
    ) -> None:
        """
        Args:
            settle_s: how long each step is looked at.
            say: takes lines for people.
            watched: is told after every look how much of all steps is done, from 0 to 1.
        """
        self._knob = knob
        self._change = change
        self._settle_s = settle_s
        self._clock = clock
        self._say = say
        self._watched = watched
        self._reached = change.current  # Or on its way there.

    def run(self) -> Outcome:
        change, steps = self._change, self._change.steps
        looks = [self._knob.look()]
        while len(looks) < LOOKS_BEFORE and not looks[-1].moving:
            self._clock.wait(LOOK_EVERY_S)
            looks.append(self._knob.look())
        if looks[-1].moving:
            return Outcome(change.current, changed=False, why=_moving(looks[-1]))
        was = measure_baseline(looks)
        self._say(f"Before: {_told(looks[-1])}, {was.messages_per_s:.0f} messages/s written.")
        try:
            for number, value in enumerate(steps):
                why = self._set(value) or self._watch(was, number)
                if isinstance(why, FollowerSample):
                    return Outcome(
                        value,
                        changed=True,
                        why=f"{_moving(why)}. They began while {value} was looked at, so whether followers keep up with it is "
                        f"not known. It stays; `rheostat fetchers --apply --value {change.current}` puts back what stood, once "
                        "they are done",
                    )
                if why is not None:
                    return self._back(why)
                if number + 1 < len(steps) and (look := self._seen()) is not None and look.moving:
                    return Outcome(
                        value, changed=True, why=f"{_moving(look)}. It stays at {value}, which was found well"
                    )
            self._clock.wait(0.0)  # Ctrl-C during the last look.
        except BaseException as error:
            self._back(f"interrupted ({type(error).__name__})")
            raise
        return Outcome(change.desired, changed=True)

    # -- one step ------------------------------------------------------------------------------------------------------

    def _set(self, value: int) -> str | None:
        """Writes it everywhere and reads it back; what went wrong, or None."""
        self._reached = value
        self._say(f"{NUM_REPLICA_FETCHERS}={value} on {places_text(self._change)}.")
        failed = self._knob.write(dict.fromkeys(self._change.targets, value))
        if failed:
            return "; ".join(f"{_place(place)}: {why}" for place, why in sorted(failed.items()))
        return self._shown(value)

    def _shown(self, value: int, *, silent_too: bool = True) -> str | None:
        """Which brokers have another value still, after the time it takes; None when none has.

        Args:
            silent_too: also those that do not answer.
        """
        until_s = self._clock.now_s() + SHOWN_S_MAX
        while True:
            found = self._knob.read()
            other = sorted(b for b in self._change.brokers if found.get(b, -1 if silent_too else value) != value)
            if not other:
                return None
            if self._clock.now_s() >= until_s:
                shown = ", ".join(f"{b} ({found.get(b, 'no answer')})" for b in other)
                return f"not in force within {SHOWN_S_MAX:g} s on broker {shown}"
            self._clock.wait(0.5)

    def _watch(self, was: ResizeBaseline, number: int) -> str | FollowerSample | None:
        """What the step has harmed; None after ``settle_s`` in which it has not; a look at which partitions moved before that."""
        looks: list[FollowerSample] = []
        blind, began_s = 0, self._clock.now_s()
        said_s = began_s
        while (passed_s := self._clock.now_s() - began_s) < self._settle_s:
            self._watched((number + passed_s / self._settle_s) / len(self._change.steps))
            self._clock.wait(min(LOOK_EVERY_S, self._settle_s))
            look = self._seen()
            blind = blind + 1 if look is None else 0
            if blind >= BLIND_LOOKS_MAX:
                return "the cluster does not answer"
            if look is None:
                continue
            if look.moving:
                return look
            looks.append(look)
            if (harm := find_harm(was, looks)) is not None:
                return harm
            if self._clock.now_s() - said_s >= _SAID_EVERY_S:
                said_s = self._clock.now_s()
                self._say(f"  watched for {span_text(said_s - began_s)} of {span_text(self._settle_s)}: {_told(look)}.")
        if looks:
            self._say(f"  well after {span_text(self._settle_s)}: {_told(looks[-1])}.")
        return None

    def _seen(self) -> FollowerSample | None:
        try:
            return self._knob.look()
        except ClusterError:
            return None

    # -- back ----------------------------------------------------------------------------------------------------------

    def _back(self, why: str) -> Outcome:
        """Puts back what stood, at every place that can be reached; says what could not be."""
        change = self._change
        self._say(f"Putting {change.current} back: {why}.")
        failed: dict[ConfigTarget, str] = {}
        for value in change.rollback_steps(self._reached):
            failed |= self._knob.write(dict.fromkeys(change.targets, value))
            self._shown(value, silent_too=False)
        bare: dict[ConfigTarget, int | None] = {place: None for place, stood in change.targets.items() if stood is None}
        failed |= self._knob.write(bare) if bare else {}
        missing = self._shown(change.current, silent_too=False)
        found = self._knob.read()
        for broker in sorted(set(change.brokers) - found.keys()):
            self._say(f"Broker {broker} does not answer: what is in force there is not known.")
        if failed or missing is not None:
            each = ", ".join(f"{b}: {n}" for b, n in sorted(found.items()))
            told = "; ".join(f"{_place(place)}: {reason}" for place, reason in sorted(failed.items())) or missing
            return Outcome(
                self._reached,
                changed=True,
                why=f"{why}; and what stood could not be put back everywhere ({told}). Now in force, by broker: {each}. Try again "
                f"with `rheostat fetchers --apply --value {change.current}`",
            )
        self._say(f"{NUM_REPLICA_FETCHERS}={change.current} stands again, as before.")
        return Outcome(change.current, changed=False, why=why, put_back=True)


def places_text(change: ResizePlan) -> str:
    """Where it is written, and for whom."""
    each = ", ".join(map(str, sorted(b for b in change.targets if b != CLUSTER_DEFAULT)))
    named = ", ".join(map(str, change.brokers))
    if CLUSTER_DEFAULT not in change.targets:
        return f"broker {each}, each on its own"
    return f"the cluster's default{f' and on broker {each}' if each else ''} (for broker {named})"


def _place(place: ConfigTarget) -> str:
    return "the cluster's default" if place == CLUSTER_DEFAULT else f"broker {place}"


def _moving(look: FollowerSample) -> str:
    return f"{look.moving} partitions are being reassigned, and every change starts all fetcher threads anew"


def _told(look: FollowerSample) -> str:
    return f"{look.out_of_sync} partitions with a replica out of sync, {look.behind} messages on their way to replicas"
