"""Stops a tuner from writing throttles once another tuner may have taken over.

Kafka fences writes to the journal (transactions) but not configuration changes. Before each configuration change, the tuner
therefore needs a recent proof that it still owns the journal. The last record that the journal accepted is such a proof. If that
record is too old, the tuner asks the journal again.

A small gap remains. A process may be suspended between the proof and the write for longer than the lease lasts. When the process
resumes, it makes this one write, although another tuner acts by then. The other tuner reads every value before it writes the value,
and so detects the change.
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

# Maximum age of a proof in seconds. The lease lasts 8 s from the last heartbeat, so no other tuner can get the lease within this
# time. The age of a proof is the time since the older of two events: the last accepted record, and the last answered heartbeat.
PROOF_S_MAX = 4.0


class Fence(Protocol):
    """The journal as the source of proofs of leadership."""

    def proof_age_s(self) -> float: ...

    def prove_ownership(self) -> None:
        """Asks for a new proof.

        Raises:
            JournalError: the journal does not confirm the leadership.
        """


class FencedThrottles:
    """Throttles that are written only with a recent proof of leadership. Reads need no proof."""

    def __init__(self, real: Throttles, fence: Fence) -> None:
        self._real = real.guarded(lambda: write_refusal(fence)) if isinstance(real, GuardedThrottles) else real
        self._fence = fence

    def read_rates(self, sides: Iterable[BrokerSide]) -> dict[BrokerSide, int | ClusterError | None]:
        return self._real.read_rates(sides)

    def write_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        refused = write_refusal(self._fence)
        return self._real.write_rates(rates) if refused is None else dict.fromkeys(rates, refused)

    def confirm_rates(self, rates: Mapping[BrokerSide, int | None]) -> dict[BrokerSide, Failure | None]:
        return self._real.confirm_rates(rates)

    def clear_lists(self, topic: str, sides: Iterable[Side], decided_on: TopicThrottle | None = None) -> Failure | None:
        refused = write_refusal(self._fence)
        return self._real.clear_lists(topic, sides, decided_on) if refused is None else refused

    def add_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        refused = write_refusal(self._fence)
        return self._real.add_pairs(pairs) if refused is None else dict.fromkeys(pairs, refused)

    def remove_pairs(self, pairs: Mapping[str, TopicThrottle]) -> dict[str, Failure | None]:
        refused = write_refusal(self._fence)
        return self._real.remove_pairs(pairs) if refused is None else dict.fromkeys(pairs, refused)


def write_refusal(fence: Fence) -> Failure | None:
    """Returns why nothing may be written now; None if writes are allowed."""
    if fence.proof_age_s() <= PROOF_S_MAX:
        return None
    try:
        fence.prove_ownership()
    except JournalError as error:
        return f"not written, because it is not certain that this tuner still has the lease: {error}"
    # The age of a proof starts at its request, and the wait for the answer may have taken longer than the lease lasts.
    if fence.proof_age_s() > PROOF_S_MAX:
        return (
            "not written: the journal or the tuner's consumer group took too long to confirm that this tuner still has the lease; "
            "the tuner tries again"
        )
    return None
