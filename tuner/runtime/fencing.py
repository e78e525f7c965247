"""The port to the throttles for a tuner that must not write any more once another has taken over.

Kafka fences the journal and not its own settings. So before a setting is written it has to be certain that the journal was
ours a moment ago: if the last record that it took is older than that, it is asked again, and so before each of many requests
of one call. What is left is the time between that proof and the write itself; a tuner that is stopped just there for longer
than the lease lasts, and goes on, makes that one write. Its successor reads every value before it writes one, and finds it.
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

# Nobody else can have the lease sooner after the last proof: its session lasts 8 s from the last heartbeat, and a proof is of the
# journal and of a heartbeat that was answered, and as old as the older of both.
PROOF_S_MAX = 4.0


class Fence(Protocol):
    def proof_age_s(self) -> float: ...

    def prove_ownership(self) -> None: ...


class FencedThrottles:
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
    """Why nothing may be written now; None: it may."""
    if fence.proof_age_s() <= PROOF_S_MAX:
        return None
    try:
        fence.prove_ownership()
    except JournalError as error:
        return f"not written, as it is not certain that this tuner may: {error}"
    # A proof is as old as its question, and the answer may have been waited for longer than a lease lasts.
    if fence.proof_age_s() > PROOF_S_MAX:
        return "not written: the journal, or the group, took too long to say that this tuner may; tried again"
    return None
