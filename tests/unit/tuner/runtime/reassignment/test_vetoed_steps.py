"""Steps of plans wait for the end of a veto, except for partitions that refuse writes."""

from __future__ import annotations

from reassign_rig import Rig, still

from tuner.core.vetoes import Veto

VETO = Veto("error-budget", "its value 0.8 is above 0.5")
KEY, URGENT = ("orders", 0), ("orders", 1)


def test_step_begins_only_after_the_veto() -> None:
    rig = Rig({KEY: still(1, 2)}, online={1, 2, 3})
    rig.vetoes = (VETO,)
    rig.give({KEY: (3, 2)})
    for _ in range(3):
        rig.cycle()
    assert rig.cluster.asked == []
    (blocker,) = rig.plan().state.blockers
    assert blocker == (
        "no new step starts, except for partitions below min.insync.replicas: "
        "veto error-budget: its value 0.8 is above 0.5"
    )
    rig.vetoes = ()
    rig.until_ended()
    assert rig.replicas() == {KEY: (3, 2)}


def test_veto_lets_partitions_below_min_isr_move() -> None:
    rig = Rig({KEY: still(1, 2), URGENT: still(1, 2, isr=(1,))}, online={1, 3})
    rig.cluster.min_in_sync = {"orders": 2}
    rig.cluster.partitions[KEY] = still(1, 3)
    rig.vetoes = (VETO,)
    rig.give({KEY: (3, 1), URGENT: (1, 3)})
    rig.cycle()
    assert [key for key, _ in rig.cluster.asked] == [URGENT]


def test_entry_of_a_step_names_the_veto_in_force() -> None:
    rig = Rig({URGENT: still(1, 2, isr=(1,))}, online={1, 3})
    rig.cluster.min_in_sync = {"orders": 2}
    rig.vetoes = (VETO,)
    rig.give({URGENT: (1, 3)})
    rig.cycle()
    steps = [entry for entry in rig.journal.entries if entry.kind == "steps"]
    assert steps[0].inputs["vetoes"] == {"error-budget": "its value 0.8 is above 0.5"}
