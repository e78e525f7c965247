"""Which throttles are hurried: the ends of a stalled move, and of what brings lost replicas back."""

from __future__ import annotations

from tuner_cases import SOURCE, STALLED, TARGET, WELL, F, L, live, move

from tuner.decide.urgency import recovering, stalled_ends
from tuner.model.memory import Memory


def test_the_ends_of_a_stalled_move_and_of_no_other() -> None:
    cluster = live(moves=(move(), move(partition=1, leader=2, adding=(4,), replicas=(4, 1, 2))))
    assert stalled_ends(cluster, Memory(stalls={3: STALLED, 4: WELL})) == {SOURCE, TARGET}
    assert stalled_ends(cluster, Memory(stalls={3: WELL, 4: WELL})) == frozenset()


def test_a_replica_that_fell_out_is_recovering_and_one_that_is_being_added_is_not() -> None:
    assert recovering(live()) == frozenset()
    assert recovering(live(moves=(move(isr=(1,)),))) == {(1, L), (2, F)}


def test_a_dead_broker_waits_and_so_does_a_partition_without_a_leader() -> None:
    assert recovering(live(moves=(move(isr=(1,)),), brokers=(1, 3))) == frozenset()
    assert recovering(live(moves=(move(leader=-1, isr=()),))) == frozenset()
