"""Stops a tuner from writing throttles once another tuner may have taken over.

Kafka fences the journal (transactions) but not configuration changes. Before each write, the tuner therefore needs a recent proof
that the journal was still its own; if the last accepted record is too old, it asks the journal again. Between the proof and the
write some time remains: a process that is suspended exactly there, for longer than the lease lasts, makes that one write when it
resumes. Its successor reads every value before it writes, and finds the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.throttle_settings import TopicThrottle
from tuner.core.cluster import BrokerSide
from tuner.core.outcome import Failure
from tuner.journal.kafka_journal import JournalError
from tuner.runtime.throttle.actuator import GuardedThrottles, Throttles

# No other tuner can get the lease sooner after a proof. The session of the lease lasts 8 s from the last heartbeat, and a proof
# covers both the journal and an answered heartbeat: it is as old as the older one.
PROOF_S_MAX = 4.0


class Fence(Protocol):
    """The journal, as the proof of leadership."""

    def proof_age_s(self) -> float: ...

    def prove_ownership(self) -> None:
        """Asks for a new proof.

        Raises:
            JournalError: there is none.
        """


class FencedThrottles:
    """Throttles that are written only with a recent proof of leadership; reads need none."""

    def __init__(self, real: Throttles, fence: Fence) -> None:
        self._real = real.guarded(lambda: refusal(fence)) if isinstance(real, GuardedThrottles) else real
        self._fence = fence

    def read_rates(self, sides: Iterable[BrokerSide]) -> dict[BrokerSide, int | ClusterError | None]:
        return self._real.read_rates(sides)

    def write_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        refused = refusal(self._fence)
        return self._real.write_rates(rates) if refused is None else dict.fromkeys(rates, refused)

    def confirm_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        return self._real.confirm_rates(rates)

    def clear_lists(self, topic: str, sides: Iterable[Side], decided_on: TopicThrottle | None = None) -> Failure | None:
        refused = refusal(self._fence)
        return self._real.clear_lists(topic, sides, decided_on) if refused is None else refused

    def add_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        refused = refusal(self._fence)
        return self._real.add_pairs(pairs) if refused is None else dict.fromkeys(pairs, refused)

    def remove_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        refused = refusal(self._fence)
        return self._real.remove_pairs(pairs) if refused is None else dict.fromkeys(pairs, refused)


def refusal(fence: Fence) -> Failure | None:
    """Returns why nothing may be written now; None: writes are allowed."""
    if fence.proof_age_s() <= PROOF_S_MAX:
        return None
    try:
        fence.prove_ownership()
    except JournalError as error:
        return f"not written, because leadership is not certain: {error}"
    # A proof is as old as the question, and waiting for the answer may have taken longer than a lease lasts.
    if fence.proof_age_s() > PROOF_S_MAX:
        return "not written: the journal or the group took too long to confirm leadership; it will be tried again"
    return None
