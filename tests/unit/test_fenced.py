"""Before a write it is certain that nobody has taken over, or nothing is written."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from fake_throttles import FakeThrottles
from tuner_cases import OWN_LISTS, SOURCE, TARGET, L, throttle

from tuner.actuate.fenced import PROOF_S_MAX, FencedThrottles
from tuner.journal.kafka_journal import JournalError, JournalLost
from tuner.lease import HEARTBEAT_S, SESSION_S
from tuner.model.limits import MB


@dataclass
class Fence:
    ago_s: float = 0.0
    refuses: JournalError | None = None
    proofs: int = 0

    def proved_s_ago(self) -> float:
        return self.ago_s

    def prove(self) -> None:
        self.proofs += 1
        if self.refuses is not None:
            raise self.refuses
        self.ago_s = 0.0


@pytest.fixture
def real() -> FakeThrottles:
    return FakeThrottles(rates={SOURCE: 10 * MB}, lists=OWN_LISTS)


def test_a_proof_that_is_young_is_enough(real: FakeThrottles) -> None:
    fence = Fence(ago_s=PROOF_S_MAX)
    assert FencedThrottles(real, fence).write_rates({SOURCE: 20 * MB}) == {SOURCE: None}
    assert fence.proofs == 0


def test_an_old_proof_is_renewed_before_the_write(real: FakeThrottles) -> None:
    fence = Fence(ago_s=PROOF_S_MAX + 0.1)
    assert FencedThrottles(real, fence).write_rates({SOURCE: 20 * MB}) == {SOURCE: None}
    assert fence.proofs == 1
    assert real.rates[SOURCE] == 20 * MB


@pytest.mark.parametrize("error", [JournalLost("another has it"), JournalError("no leader")])
def test_who_cannot_prove_it_writes_nothing(real: FakeThrottles, error: JournalError) -> None:
    port = FencedThrottles(real, Fence(ago_s=60.0, refuses=error))
    answers = port.write_rates({SOURCE: 20 * MB, TARGET: 5 * MB})
    assert set(answers) == {SOURCE, TARGET}
    assert all(str(error) in str(answer) for answer in answers.values())
    assert str(error) in str(port.clear_lists("orders", [L]))
    assert str(error) in str(port.add_pairs({"orders": throttle(leader=[(1, 1)])})["orders"])
    assert str(error) in str(port.remove_pairs({"orders": throttle(leader=[(0, 1)])})["orders"])
    assert real.rates == {SOURCE: 10 * MB}
    assert real.lists == OWN_LISTS
    assert real.events == []


def test_reading_needs_no_proof(real: FakeThrottles) -> None:
    port = FencedThrottles(real, Fence(ago_s=60.0, refuses=JournalLost("another has it")))
    assert port.read_rates([SOURCE]) == {SOURCE: 10 * MB}
    assert port.confirm_rates({SOURCE: 10 * MB}) == {SOURCE: None}


def test_a_proof_is_out_of_date_before_anybody_else_can_have_the_lease() -> None:
    assert PROOF_S_MAX < SESSION_S - HEARTBEAT_S
