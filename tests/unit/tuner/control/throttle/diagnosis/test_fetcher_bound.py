"""Moves limited by fetcher threads differ from throttle-bound moves and from moves without any progress."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tuner_cases import (
    LIMITS,
    SOURCE,
    STALL,
    STALLED,
    TARGET,
    broker_signal,
    live,
    move,
    move_signal,
    observation,
    traced,
)

from streaming.shared.contract import MoveSignal
from tuner.control.throttle.decision import Hold, Reason
from tuner.control.throttle.diagnosis.fetcher_bound import (
    FetcherCollision,
    count_idle_threads_of_moves,
    find_fetcher_collision,
)
from tuner.control.throttle.policy import decide
from tuner.control.throttle.state import Memory
from tuner.core.cluster import LiveCluster, PartitionMove
from tuner.core.throttle_limits import MB

# hash("a") is 97, so the sum of partition p is 3007 + p: with four threads these five all fall to thread 0.
CROWDED = tuple(move("a", p) for p in (1, 5, 9, 13, 17))
SPREAD = tuple(move("a", p) for p in (1, 2, 3, 4))


def onto_3(gained_bytes_per_s: float) -> MoveSignal:
    return move_signal(*TARGET, steady_state=3 * MB, steps=tuple(traced([gained_bytes_per_s] * 3)))


def test_five_partitions_on_one_of_four_threads_collide() -> None:
    crowd = find_fetcher_collision(3, CROWDED, {3: 4}, onto_3(20 * MB))
    assert crowd == FetcherCollision(3, 1, 0, 5, 5, 4, 5, 1)
    assert str(crowd) == (
        "5 of the 5 partitions that move onto broker 3 from broker 1 are copied by one thread of 4, ReplicaFetcherThread-0-1; with num.replica.fetchers=5 one thread would copy at most 1 of them"
    )


def test_single_thread_for_all_partitions_is_a_collision() -> None:
    crowd = find_fetcher_collision(3, SPREAD, {3: 1}, onto_3(20 * MB))
    assert crowd is not None
    assert (crowd.thread_partitions, crowd.threads, crowd.better_threads, crowd.better_thread_partitions) == (
        4,
        1,
        4,
        1,
    )


@pytest.mark.parametrize(
    ("moves", "fetchers", "signal"),
    [
        (SPREAD, {3: 4}, onto_3(20 * MB)),  # Each has a thread of its own.
        ((move("a", 1),), {3: 1}, onto_3(20 * MB)),  # One partition is copied by one thread, for any number of threads.
        (CROWDED, {1: 4}, onto_3(20 * MB)),  # Its number of threads is not known.
        (CROWDED, {3: 4}, None),
        (CROWDED, {3: 4}, move_signal(*TARGET)),  # The received bytes are not measured.
        (CROWDED, {3: 4}, onto_3(2 * MB)),  # A busy thread would copy more.
        (tuple(replace(m, leader=-1) for m in CROWDED), {3: 4}, onto_3(20 * MB)),
        ((), {3: 4}, onto_3(20 * MB)),
    ],
)
def test_few_or_unknown_partitions_are_no_collision(
    moves: tuple[PartitionMove, ...], fetchers: dict[int, int], signal: MoveSignal | None
) -> None:
    assert find_fetcher_collision(3, moves, fetchers, signal) is None


# -- in what is said of a throttle -----------------------------------------------------------------------------------------


def said(cluster: LiveCluster, gained_bytes_per_s: float, used: float = 2 * MB) -> list[Hold]:
    signals = [move_signal(*SOURCE), onto_3(gained_bytes_per_s)]
    brokers = [broker_signal(1, leader=used), broker_signal(3, follower=used)]
    seen = observation(cluster, signals, brokers)
    # The steps were judged before: what they brought is told, and the stall stands.
    known = Memory(stalls={3: replace(STALLED, judged_until_ms=seen.now_ms + 3_600_000)})
    _, decisions = decide(seen, known, LIMITS, STALL)
    return [d for d in decisions if isinstance(d, Hold)]


def test_stall_with_nonbinding_throttle_names_fetcher_collision() -> None:
    both = said(replace(live(moves=CROWDED), fetchers={1: 4, 2: 4, 3: 4}), 20 * MB)
    assert [(d.broker, d.side, d.reason) for d in both] == [
        (*SOURCE, Reason.STALLED_FETCHER_BOUND), (*TARGET, Reason.STALLED_FETCHER_BOUND),
    ]  # fmt: skip
    assert both[0].text == (
        "broker 1 leader throttle: the move onto broker 3 has stalled, but not because of the throttle (10.0 MB/s, only 2.00 MB/s of "
        "it is used): the cause is the fetcher threads: 5 of the 5 partitions that move onto broker 3 from broker 1 are copied by one "
        "thread of 4, ReplicaFetcherThread-0-1; with num.replica.fetchers=5 one thread would copy at most 1 of them; a higher throttle does not help: "
        "change num.replica.fetchers with `rheostat fetchers --apply` when no partition moves"
    )


def test_move_without_bytes_is_not_fetcher_bound() -> None:
    both = said(replace(live(moves=CROWDED), fetchers={1: 4, 2: 4, 3: 4}), 0.0)
    assert {d.reason for d in both} == {Reason.STALLED_NOT_THROTTLE_BOUND}


def test_uninvolved_leader_is_not_named() -> None:
    moves = (*CROWDED, move("b", 0, leader=2, isr=(1, 2)))
    by_side = {SOURCE: 10 * MB, (2, SOURCE[1]): 10 * MB, TARGET: 10 * MB}
    signals = [move_signal(*SOURCE), move_signal(2, SOURCE[1]), onto_3(20 * MB)]
    brokers = [broker_signal(b, leader=2 * MB, follower=2 * MB) for b in (1, 2, 3)]
    seen = observation(replace(live(by_side, moves=moves), fetchers={3: 4}), signals, brokers)
    _, decisions = decide(
        seen, Memory(stalls={3: replace(STALLED, judged_until_ms=seen.now_ms + 3_600_000)}), LIMITS, STALL
    )
    found = {(d.broker, d.side.value): d.reason for d in decisions if isinstance(d, Hold) and d.side is not None}
    assert found == {
        (1, "leader"): Reason.STALLED_FETCHER_BOUND,
        (2, "leader"): Reason.STALLED_NOT_THROTTLE_BOUND,
        (3, "follower"): Reason.STALLED_FETCHER_BOUND,
    }


# -- counted for the metrics -----------------------------------------------------------------------------------------------


def test_idle_threads_beside_a_collision_are_counted_by_destination() -> None:
    more = move("a", 2, adding=(2,), replicas=(2, 3, 1))
    cluster = replace(live(moves=(*CROWDED, more)), fetchers={2: 4, 3: 4})
    assert count_idle_threads_of_moves(cluster) == {2: 0, 3: 3}
    assert count_idle_threads_of_moves(replace(cluster, fetchers={3: 5})) == {3: 0}
    assert count_idle_threads_of_moves(replace(cluster, fetchers={})) == {}
    assert count_idle_threads_of_moves(replace(cluster, moves=())) == {}
    assert count_idle_threads_of_moves(replace(cluster, moves=(replace(more, leader=-1),))) == {}
