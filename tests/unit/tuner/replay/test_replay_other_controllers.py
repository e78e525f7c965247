"""Decisions about preferred leaders and Cruise Control replay to the same decisions; differences are found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from cruise_control_kit import CruiseControlStandIn
from quota_film import differing, replayed
from test_cruise_control_loop import Rig as CruiseControlRig
from test_leadership_loop import PARTITIONS
from test_leadership_loop import Rig as LeadershipRig
from tuner_cases import LIMITS, NOW_MS, STALL

from streaming.shared.kafka.values import ClusterError
from tuner.control.cruise_control import policy as movement_policy
from tuner.control.leadership import policy as election_policy
from tuner.control.throttle.objective import Objective
from tuner.core.operator_orders import Pause
from tuner.core.throttle_limits import MB
from tuner.journal.delta_stream import FRAME_EVERY_S
from tuner.journal.entries import Entry
from tuner.journal.input_log import InputLog
from tuner.journal.settings_snapshot import SettingsSnapshot
from tuner.replay.compare import compare_steps
from tuner.replay.replayer import ReplayedStep, Replayer

ALWAYS = (0, 2**53)


class Film:
    """The input log of a rig, and the records that its journal took."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.now_s: Callable[[], float] = lambda: 0.0
        self.log = InputLog(
            SettingsSnapshot(LIMITS, STALL),
            run="run 1",
            program="test",
            wall_clock=lambda: NOW_MS / 1000 + self.now_s(),
        )

    def attach(self, rig: LeadershipRig | CruiseControlRig) -> None:
        """Takes the records of the inputs with each write of the journal, in one transaction."""
        write = rig.write
        self.now_s = lambda: rig.now_s

        def write_both(entries: list[Entry]) -> None:
            taken = self.log.take_records()
            write(entries)
            self.records += taken

        rig.loop._ports = replace(rig.loop._ports, journal=write_both)

    def played(self) -> list[ReplayedStep]:
        while self.log.has_pending:
            self.records += self.log.take_records()
        return replayed(self.records)


@pytest.fixture
def film() -> Film:
    return Film()


@pytest.fixture
def service() -> Iterator[CruiseControlStandIn]:
    with CruiseControlStandIn().serving() as running:
        yield running


def elected(film: Film, paused_cycles: int = 2) -> LeadershipRig:
    """A broker catches up and gets its leaders back, with a pause, a failed election, and Kafka's own election meanwhile."""
    rig = LeadershipRig(inputs=film.log, objective=Objective(latency_ms=100.0))
    film.attach(rig)
    rig.isr = (1,)
    rig.cycle(2)
    rig.isr = (3, 1)
    rig.cycle(8)
    rig.pause = Pause(NOW_MS, "kim")
    rig.cycle(paused_cycles)
    rig.pause = None
    rig.refused = {0, 1, 2, 3}
    rig.cycle(8)
    rig.refused = set()
    rig.error = ClusterError("away")
    rig.cycle(2)
    rig.error = None
    rig.auto, rig.loop._electing_read_s = "true", float("-inf")
    rig.cycle(2)
    rig.auto, rig.loop._electing_read_s = "false", float("-inf")
    rig.cycle(80)
    return rig


def test_replay_elections_has_same_decisions(film: Film) -> None:
    rig = elected(film)
    assert set(rig.leaders.values()) == {3}
    played = film.played()
    assert {one.step.kind for one in played} == {"election"}
    reasons = {row["reason"] for one in played for row in one.decisions["rows"]}
    assert reasons >= {"just_caught_up", "paused", "settling", "kafka_elects", "caught_up", "leaders_in_place"}
    assert differing(played) == []
    texts = [text for one in played for text in one.texts]
    assert {entry.text for entry in rig.entries if entry.reason != "partitions_unreadable"} <= {*texts}
    comparison = compare_steps(played, *ALWAYS, differences_max=9)
    assert (comparison.elections.same, comparison.different, comparison.steps) == (len(played), 0, len(played))


def test_replay_elections_continues_after_frames(film: Film) -> None:
    elected(film, paused_cycles=45)
    played = film.played()
    assert differing(played) == []
    frames = [one for one in played if one.step.frame is not None]
    assert len(frames) > 1
    assert any(one.step.pieces is not None for one in frames), (
        "a frame in the middle is compared with the replayed state"
    )
    assert played[-1].step.now_ms - played[0].step.now_ms > FRAME_EVERY_S * 1000


def test_replay_finds_another_group_size(film: Film, monkeypatch: pytest.MonkeyPatch) -> None:
    elected(film)
    film.played()
    monkeypatch.setattr(election_policy, "GROUP_SHARE", 0.5)
    played = replayed(film.records)
    assert differing(played)
    comparison = compare_steps(played, *ALWAYS, differences_max=9)
    assert comparison.elections.different == comparison.different > 0
    assert "it gets the leadership of 2 of 20 partitions" in comparison.differences[0].then
    assert "it gets the leadership of 10 of 20 partitions" in comparison.differences[0].now


def test_replay_with_another_mode_elects_nothing(film: Film) -> None:
    elected(film)
    played = film.played()
    recorded = played[0].step.settings
    assert recorded.leadership is not None
    watching = replace(recorded, leadership=replace(recorded.leadership, acts=False))
    again = list(Replayer(watching).replay([one.step for one in played]))
    assert "elect_leaders" in {row["action"] for one in played for row in one.decisions["rows"]}
    assert {row["action"] for one in again for row in one.decisions["rows"]} == {"hold_election"}


def test_elections_record_nothing_while_leaders_are_in_place(film: Film) -> None:
    rig = LeadershipRig(inputs=film.log)
    film.attach(rig)
    rig.leaders = dict.fromkeys(range(PARTITIONS), 3)
    rig.cycle(5)
    assert film.played() == []


def test_recorded_elections_stay_small_with_many_partitions(film: Film) -> None:
    rig = LeadershipRig(inputs=film.log)
    film.attach(rig)
    rig.leaders = dict.fromkeys(range(20_000), 1)
    rig.cycle(8)
    played = film.played()
    assert differing(played) == []
    assert max(map(len, film.records)) < 200_000
    assert json.loads(film.records[0])["v"] == 8


def followed(service: CruiseControlStandIn, film: Film) -> CruiseControlRig:
    """The number follows the throttle, another tool changes it, and the execution ends."""
    rig = CruiseControlRig(service, inputs=film.log)
    film.attach(rig)
    for rate in (25.0, 25.0, 40.0, 90.0, 20.0):
        rig.rate = rate * MB
        rig.cycle()
    service.movements = 7
    rig.cycle()
    rig.cycle()
    service.state = "NO_TASK_IN_PROGRESS"
    rig.cycle()
    rig.cycle()
    return rig


def test_replay_movements_has_same_decisions(service: CruiseControlStandIn, film: Film) -> None:
    rig = followed(service, film)
    played = film.played()
    assert {one.step.kind for one in played} == {"movements"}
    assert differing(played) == []
    rows = [row for one in played for row in one.decisions["rows"]]
    assert {row["reason"] for row in rows} >= {"follows_throttle", "fits_throttle", "adjusted_by_tool"}
    assert [row["movements"] for row in rows if row["action"] == "set_movements"] == service.changes
    assert {entry.text for entry in rig.entries} <= {text for one in played for text in one.texts}
    comparison = compare_steps(played, *ALWAYS, differences_max=9)
    assert (comparison.movements.same, comparison.different) == (len(played), 0)


def test_replay_finds_another_pause_after_a_raise(
    service: CruiseControlStandIn, film: Film, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed(service, film)
    film.played()
    monkeypatch.setattr(movement_policy, "RAISE_EVERY_S", 0.0)
    comparison = compare_steps(replayed(film.records), *ALWAYS, differences_max=9)
    assert comparison.movements.different > 0
    assert comparison.differences[0].kind == "movements"
