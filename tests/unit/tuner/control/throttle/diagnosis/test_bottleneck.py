"""The bottleneck of a stalled move that no throttle limits, found from other copies of its brokers and from their load."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tuner_cases import (
    LIMITS,
    NOW_MS,
    SOURCE,
    STALL,
    STALLED,
    TARGET,
    WELL,
    F,
    L,
    broker_signal,
    live,
    move,
    move_signal,
    observation,
    traced,
)

from streaming.shared.contract import BrokerSignal, MoveStep
from tuner.control.throttle.decision import Decision, Hold, Reason
from tuner.control.throttle.diagnosis.bottleneck import Bottleneck, SourceProgress, find_bottleneck
from tuner.control.throttle.policy import decide
from tuner.control.throttle.state import Memory, StallState
from tuner.core.cluster import BrokerSide, LiveCluster, PartitionMove
from tuner.core.throttle_limits import MB

TRICKLE = tuple(traced([0.2 * MB] * 6, start_ms=NOW_MS - 40_000))
NOTHING = tuple(traced([0.0] * 6, start_ms=NOW_MS - 40_000))


def found(
    sources: dict[int, SourceProgress], steps: tuple[MoveStep, ...] = TRICKLE, idle: dict[int, float] | None = None
) -> tuple[Reason, int] | None:
    """Of broker 9, onto which the ``sources`` copy."""
    one = find_bottleneck(9, sources, steps, idle or {})
    return None if one is None else (one.reason, one.broker)


def test_source_feeding_another_destination_is_not_the_bottleneck() -> None:
    assert find_bottleneck(9, {1: SourceProgress(progressing=(4,), stalled=(9,))}, TRICKLE, {}) == Bottleneck(
        Reason.STALLED_DESTINATION_BOUND, 9,
        "the likely cause is broker 9, the destination: broker 1 copies to broker 4 at the expected rate; check the disks and the network of broker 9",
    )  # fmt: skip


def test_destination_without_any_byte_has_dead_replicas() -> None:
    """Registered, six steps of 5 s without a byte."""
    assert find_bottleneck(9, {1: SourceProgress(progressing=(4, 5), stalled=(9,))}, NOTHING, {}) == Bottleneck(
        Reason.STALLED_REPLICA_DEAD, 9,
        "the replicas on broker 9 are likely dead, although the broker is registered: no bytes have arrived for 30 s, while broker 1 "
        "copies to brokers 4, 5 at the expected rate; check the log directories of broker 9, and look in its log for partitions "
        "whose fetching has failed; "
        "restart this broker, or cancel its moves",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("silent", "reason"), [(3, Reason.STALLED_DESTINATION_BOUND), (4, Reason.STALLED_REPLICA_DEAD)]
)
def test_twenty_silent_seconds_exceed_the_quota_pause(silent: int, reason: Reason) -> None:
    steps = tuple(traced([1 * MB] * (6 - silent) + [0.0] * silent))
    assert found({1: SourceProgress(progressing=(4,))}, steps) == (reason, 9)
    assert found({1: SourceProgress(progressing=(4,))}, tuple(reversed(steps))) == (reason, 9), "in any order"


def test_source_with_only_stalled_destinations_is_the_bottleneck() -> None:
    assert find_bottleneck(9, {1: SourceProgress(stalled=(4, 9))}, TRICKLE, {}) == Bottleneck(
        Reason.STALLED_SOURCE_BOUND, 1,
        "the likely cause is broker 1, the source: its copies to broker 4 have stalled as well; check the disks of broker 1 (it reads old data from disk) and its network",
    )  # fmt: skip
    # So is one of two sources, if the other one still feeds a destination.
    assert found({1: SourceProgress(stalled=(4, 9)), 2: SourceProgress(progressing=(5,), stalled=(9,))}) == (
        Reason.STALLED_SOURCE_BOUND,
        1,
    )


def test_several_sources_are_not_all_ill_at_once() -> None:
    sources = {1: SourceProgress(stalled=(9,)), 2: SourceProgress(stalled=(9,)), 3: SourceProgress(stalled=(9,))}
    one = find_bottleneck(9, sources, TRICKLE, {})
    assert one is not None
    assert (one.reason, one.broker) == (Reason.STALLED_DESTINATION_BOUND, 9)
    assert "brokers 1, 2, 3 all send less to this broker than their throttles allow" in one.text
    # Unless it is they who are busy, and the destination is not.
    assert found(sources, idle={1: 0.1, 2: 0.2, 9: 0.9}) is None


def test_busier_of_two_brokers_is_the_bottleneck() -> None:
    alone = {1: SourceProgress(stalled=(9,))}
    assert found(alone, idle={1: 0.12, 9: 0.80}) == (Reason.STALLED_SOURCE_BOUND, 1)
    assert found(alone, idle={1: 0.80, 9: 0.12}) == (Reason.STALLED_DESTINATION_BOUND, 9)
    one = find_bottleneck(9, alone, TRICKLE, {1: 0.12})
    assert one is not None
    assert "its request handlers are idle only 12 % of the time" in one.text


@pytest.mark.parametrize(
    ("sources", "idle"),
    [
        ({1: SourceProgress(stalled=(9,))}, {}),  # Nobody to compare them with, nothing measured.
        ({1: SourceProgress(stalled=(9,))}, {1: 0.30, 9: 0.31}),  # Neither is busy,
        ({1: SourceProgress(stalled=(9,))}, {1: 0.29, 9: 0.10}),  # or both are.
        (
            {1: SourceProgress(stalled=(4, 9)), 2: SourceProgress(stalled=(4, 9))},
            {},
        ),  # Two brokers from two: it may be either end.
        ({1: SourceProgress(stalled=(4, 9)), 2: SourceProgress(stalled=(9,))}, {}),  # Of the second nothing is known.
        ({}, {}),
    ],
)
def test_no_evidence_names_no_bottleneck(sources: dict[int, SourceProgress], idle: dict[int, float]) -> None:
    assert found(sources, idle=idle) is None
    assert found(sources, steps=NOTHING, idle=idle) is None


# -- in what is said of a throttle -----------------------------------------------------------------------------------------

TWO_ONTO = (move(partition=0), move(partition=1, adding=(4,), replicas=(4, 2, 1)))


def said(
    stalls: dict[int, StallState],
    *,
    moves: tuple[PartitionMove, ...] = TWO_ONTO,
    rates: dict[BrokerSide, float] | None = None,
    brokers: tuple[BrokerSignal, ...] = (),
) -> dict[BrokerSide, Hold]:
    """2 of 20 MB/s are used, so that no throttle binds."""
    cluster: LiveCluster = live(
        rates or {SOURCE: 20 * MB, TARGET: 20 * MB, (4, F): 20 * MB}, moves=moves, brokers=(1, 2, 3, 4)
    )
    signals = [
        move_signal(1, L), move_signal(2, L), *(move_signal(b, F, steady_state=3 * MB, steps=TRICKLE) for b in (3, 4)),
    ]  # fmt: skip
    used = brokers or tuple(broker_signal(b, leader=2 * MB, follower=2 * MB) for b in (1, 2, 3, 4))
    known = Memory(stalls={b: replace(s, judged_until_ms=NOW_MS + 3_600_000) for b, s in stalls.items()})
    _, decisions = decide(observation(cluster, signals, used), known, LIMITS, STALL)
    return {
        (d.broker, d.side): d for d in decisions if isinstance(d, Hold) and d.broker is not None and d.side is not None
    }


def reasons(found: dict[BrokerSide, Hold]) -> dict[BrokerSide, Reason]:
    return {side: decision.reason for side, decision in found.items()}


def test_source_bound_stall_is_reported_on_source_and_destinations() -> None:
    found = said({3: STALLED, 4: STALLED})
    assert reasons(found) == dict.fromkeys([SOURCE, TARGET, (4, F)], Reason.STALLED_SOURCE_BOUND)
    assert found[TARGET].text.startswith(
        "broker 3 follower throttle: the move onto broker 3 has stalled, but not because of the throttle (20.0 MB/s, only 2.00 MB/s of "
        "it is used): the likely cause is broker 1, the source: its copies to broker 4 have stalled as well; check the disks of broker 1"
    )


def test_destination_bound_stall_is_reported_on_that_destination() -> None:
    found = said({3: STALLED, 4: WELL})
    assert reasons(found) == {
        SOURCE: Reason.STALLED_DESTINATION_BOUND, TARGET: Reason.STALLED_DESTINATION_BOUND, (4, F): Reason.PROGRESSING,
    }  # fmt: skip
    assert (
        "the likely cause is broker 3, the destination: broker 1 copies to broker 4 at the expected rate"
        in found[SOURCE].text
    )


def test_throttled_or_unwatched_destinations_are_no_evidence() -> None:
    bound = {SOURCE: 20 * MB, TARGET: 20 * MB, (4, F): 2 * MB}
    assert said({3: STALLED, 4: STALLED}, rates=bound)[TARGET].reason is Reason.STALLED_NOT_THROTTLE_BOUND
    unseen = replace(WELL, observed_s=10.0)
    assert said({3: STALLED, 4: unseen})[TARGET].reason is Reason.STALLED_NOT_THROTTLE_BOUND


def test_slow_source_is_no_evidence_against_another_source() -> None:
    """Broker 1 is slow towards 3 and 4. Broker 2, another source of 3, feeds 5 well."""
    moves = (*TWO_ONTO, move(partition=2, leader=2), move(partition=3, leader=2, adding=(5,), replicas=(5, 2)))
    cluster = live({SOURCE: 20 * MB, (2, L): 20 * MB, TARGET: 20 * MB}, moves=moves, brokers=(1, 2, 3, 4, 5))
    signals = [
        move_signal(1, L), move_signal(2, L), *(move_signal(b, F, steady_state=3 * MB, steps=TRICKLE) for b in (3, 4, 5)),
    ]  # fmt: skip
    later = {"judged_until_ms": NOW_MS + 3_600_000}
    stalls = {3: replace(STALLED, **later), 4: replace(STALLED, **later), 5: replace(WELL, **later)}
    used = [broker_signal(b, leader=2 * MB, follower=2 * MB) for b in (1, 2, 3, 4, 5)]
    _, decisions = decide(observation(cluster, signals, used), Memory(stalls=stalls), LIMITS, STALL)
    found = {(d.broker, d.side): d.reason for d in decisions}
    assert found[SOURCE] is found[TARGET] is Reason.STALLED_SOURCE_BOUND
    assert found[(2, L)] is Reason.STALLED_NOT_THROTTLE_BOUND


def test_busy_source_of_single_destination_is_the_bottleneck() -> None:
    busy = (
        replace(broker_signal(1, leader=2 * MB), request_handler_idle_ratio=0.05),
        replace(broker_signal(3, follower=2 * MB), request_handler_idle_ratio=0.9),
    )
    found = said({3: STALLED}, moves=(move(),), brokers=busy)
    assert reasons(found) == dict.fromkeys([SOURCE, TARGET], Reason.STALLED_SOURCE_BOUND)
    old = tuple(replace(b, sampled_at_ms=NOW_MS - 60_000) for b in busy)
    assert reasons(said({3: STALLED}, moves=(move(),), brokers=old))[TARGET] is Reason.STALLED_NOT_THROTTLE_BOUND


def test_unregistered_destination_is_named_on_its_source() -> None:
    cluster = live(brokers=(1, 2))
    signals = [move_signal(*SOURCE), move_signal(*TARGET, age_s=40)]
    decisions: tuple[Decision, ...]
    _, decisions = decide(observation(cluster, signals), Memory(stalls={3: STALLED}), LIMITS, STALL)
    texts = {(d.broker, d.side): (d.reason, d.text) for d in decisions}
    assert texts[SOURCE] == (
        Reason.BROKER_DOWN,
        "broker 1 leader throttle: nothing is copied, because all destinations are down (broker 3): bring them back, or "
        "cancel their moves",
    )
    assert texts[TARGET][0] is Reason.BROKER_DOWN
