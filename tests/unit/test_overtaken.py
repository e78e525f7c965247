"""Changes under way that somebody, or something more urgent, has overtaken."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tuner_cases import LIMITS, SOURCE, TARGET, broker_signal, live, move, observation

from tuner.decide.overtaken import overtaken
from tuner.model.decision import Reason, SetRate
from tuner.model.limits import MB


@pytest.mark.parametrize(
    ("reason", "wanted", "waiting", "ends"),
    [
        (Reason.FOLLOWS_CLIENTS, 5 * MB, False, True),
        (Reason.FOLLOWS_CLIENTS, 20 * MB, False, False),
        (Reason.FOLLOWS_CLIENTS, 20 * MB, True, True),
        (Reason.WINDOW_EMPTY, 10 * MB, False, True),
    ],
)
def test_what_replicas_come_back_through_is_not_lowered_nor_held_low(
    reason: Reason, wanted: int, waiting: bool, ends: bool
) -> None:
    change = SetRate(*SOURCE, 10 * MB, wanted, reason, "text: text")
    behind = replace(broker_signal(1), under_min_isr_partitions=1)
    comes_back = live(moves=(replace(move(), isr=(1,)),))
    seen = observation(comes_back, brokers=(behind, broker_signal(3)))
    found = overtaken({SOURCE: change}, {SOURCE} if waiting else set(), seen, LIMITS)
    assert bool(found) == ends
    assert overtaken({TARGET: change}, {TARGET}, observation(live()), LIMITS) == {}, "nothing is behind"
