"""`rheostat fetchers --apply` on a fake cluster: every step, every early end, and the settings afterwards."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping

import pytest
from command_rig import Command

from rheostat.console.interrupt import DeferredCtrlC
from rheostat.errors import NotConfirmedError
from rheostat.fetchers.apply import ResizeOutcome, ResizeRun, targets_text
from rheostat.fetchers.approval import _change_line
from rheostat.fetchers.fetcher_setting import InterruptibleClock
from streaming.shared.kafka.values import Unreachable
from tuner.planning.fetcher_change import CLUSTER_DEFAULT, ConfigTarget, FetcherSetting, ResizePlan, plan_resize
from tuner.planning.fetcher_resize_monitor import FollowerSample

refused = Command("fetchers").refused


class Rig:
    """Fake brokers that accept what Kafka accepts, and a clock that only waiting advances."""

    def __init__(self, settings: Mapping[int, FetcherSetting], default: int | None = None) -> None:
        self.own = {b: one.value for b, one in settings.items() if one.is_set_on_broker}
        self.file = {b: one.value for b, one in settings.items() if not one.is_set_on_broker}
        self.default = default
        self.written: list[tuple[ConfigTarget, int | None]] = []
        self.said: list[str] = []
        self.shares: list[float] = []
        self.at_s = 0.0
        self.health: Callable[[Rig], FollowerSample] = lambda rig: FollowerSample(rig.at_s, 0, 0, round(100 * rig.at_s))
        self.refuses: Callable[[Rig, ConfigTarget, int | None], str | None] = lambda *_: None
        self.deaf: set[int] = set()

    def read_values(self) -> dict[int, int]:
        below = {b: self.default if self.default is not None else value for b, value in self.file.items()}
        return {b: n for b, n in {**below, **self.own}.items() if b not in self.deaf}

    def write_values(self, values: Mapping[ConfigTarget, int | None]) -> dict[ConfigTarget, str]:
        failed = {}
        for place, value in values.items():
            if (why := self.refuses(self, place, value)) is not None:
                failed[place] = why
                continue
            self.written.append((place, value))
            before = self.read_values()
            if place == CLUSTER_DEFAULT:
                self.default = value
            elif value is None:
                del self.own[place]
            else:
                self.own[place] = value
            for broker, now in self.read_values().items():
                assert before[broker] // 2 <= now <= 2 * before[broker], "Kafka would refuse it"
        return failed

    def sample_followers(self) -> FollowerSample:
        return self.health(self)

    def now_s(self) -> float:
        return self.at_s

    def wait(self, seconds: float) -> None:
        self.at_s += seconds


ALL = {1: FetcherSetting(1), 2: FetcherSetting(1), 3: FetcherSetting(1)}


def applied(
    rig: Rig,
    to: int,
    *,
    settings: Mapping[int, FetcherSetting] = ALL,
    settle_s: float = 30.0,
    say: Callable[[str], None] | None = None,
) -> ResizeOutcome:
    asked = plan_resize(settings, rig.default, to)
    return ResizeRun(rig, asked, settle_s, rig, say or rig.said.append, rig.shares.append).run()


def test_resize_run_doubles_and_reports_every_step() -> None:
    rig = Rig(ALL)
    assert applied(rig, 5) == ResizeOutcome(5, changed=True)
    assert rig.written == [(CLUSTER_DEFAULT, 2), (CLUSTER_DEFAULT, 4), (CLUSTER_DEFAULT, 5)]
    assert rig.read_values() == {1: 5, 2: 5, 3: 5}
    assert rig.said[:2] == [
        "Before: 0 partitions with a replica out of sync, 0 messages not yet on all in-sync replicas, 100 messages/s written.",
        "num.replica.fetchers=2 on the cluster's default (for broker 1, 2, 3).",
    ]
    assert (
        "  watched for 10 s of 30 s: 0 partitions with a replica out of sync, 0 messages not yet on all in-sync replicas."
        in rig.said
    )
    assert rig.said[-1].startswith("  no follower has fallen behind after 30 s: ")
    assert rig.shares == sorted(rig.shares)
    assert rig.at_s > 3 * 30


def test_resize_run_changes_own_values_and_leaves_others() -> None:
    settings = {
        1: FetcherSetting(2, is_set_on_broker=True),
        2: FetcherSetting(2, is_set_on_broker=True),
        3: FetcherSetting(7, is_set_on_broker=True),
    }
    rig = Rig(settings)
    assert applied(rig, 3, settings=settings) == ResizeOutcome(3, changed=True)
    assert rig.read_values() == {1: 3, 2: 3, 3: 7}
    assert targets_text(plan_resize(settings, None, 3)) == "broker 1, 2, individually"


@pytest.mark.parametrize("default", [None, 1])
def test_resize_run_harm_restores_everything(default: int | None) -> None:
    rig = Rig(ALL, default)
    rig.health = lambda r: FollowerSample(r.at_s, 3 if r.default == 4 else 0, 0, 0)
    found = applied(rig, 8)
    assert found == ResizeOutcome(
        1, changed=False, restored=True, why="3 partitions have a replica that is not in sync, 0 had before the change"
    )
    assert rig.written == [(CLUSTER_DEFAULT, n) for n in (2, 4, 2, 1)] + (
        [(CLUSTER_DEFAULT, None)] if default is None else []
    )
    assert (rig.default, rig.read_values()) == (default, {1: 1, 2: 1, 3: 1})
    assert rig.said[-1] == "num.replica.fetchers=1 is in force again, as before."


def test_resize_run_growing_lag_is_harm() -> None:
    rig = Rig(ALL)
    rig.health = lambda r: FollowerSample(r.at_s, 0, round(1_000 * r.at_s) if r.default else 10, 0)
    found = applied(rig, 2)
    assert found.restored
    assert found.why is not None
    assert "messages wait for in-sync replicas to copy them, 10 did before the change" in found.why


def test_resize_run_does_nothing_during_reassignments() -> None:
    rig = Rig(ALL)
    rig.health = lambda r: FollowerSample(r.at_s, 0, 0, 0, moving=7)
    found = applied(rig, 2)
    assert (found.changed, rig.written) == (False, [])
    assert found.why == "7 partitions are being reassigned, and every change restarts all fetcher threads"


def test_resize_run_new_reassignment_stops_at_current_step() -> None:
    rig = Rig(ALL)
    rig.health = lambda r: FollowerSample(r.at_s, 9 if r.at_s > 20 else 0, 0, 0, moving=4 if r.at_s > 20 else 0)
    found = applied(rig, 8)
    assert found.current == 2
    assert found.changed
    assert not found.restored
    assert found.why is not None
    assert found.why.endswith(
        "The reassignments began while the value 2 was being watched, so it is not known whether followers keep up with it. The value stays; "
        "`rheostat fetchers --apply --value 1` restores the previous value, once the reassignments are done"
    )
    assert rig.read_values() == {1: 2, 2: 2, 3: 2}


def test_resize_run_reassignment_in_last_step_leaves_effect_unknown() -> None:
    rig = Rig(ALL)
    rig.health = lambda r: FollowerSample(r.at_s, 9 if r.at_s > 20 else 0, 0, 0, moving=4 if r.at_s > 20 else 0)
    found = applied(rig, 2)
    assert (found.current, found.restored) == (2, False)
    assert found.why is not None
    assert "is not known" in found.why


def test_resize_run_reassignment_between_steps_keeps_good_step() -> None:
    rig = Rig(ALL)
    moving = 0

    def health(r: Rig) -> FollowerSample:
        return FollowerSample(r.at_s, 0, 0, round(100 * r.at_s), moving=moving)

    def watched(line: str) -> None:
        nonlocal moving
        moving = 4 if "has fallen behind after" in line else moving

    rig.health = health
    found = applied(rig, 8, say=watched)
    assert found.current == 2
    assert found.why is not None
    assert found.why.endswith("The value stays at 2, with which no follower has fallen behind")


def test_resize_run_refused_target_restores_the_others() -> None:
    settings = {b: FetcherSetting(2, is_set_on_broker=True) for b in (1, 2)}
    rig = Rig(settings)
    rig.refuses = lambda _, place, value: "missing right" if (place, value) == (2, 4) else None
    found = applied(rig, 8, settings=settings)
    assert (found.why, found.restored, rig.read_values()) == ("broker 2: missing right", True, {1: 2, 2: 2})


def test_resize_run_lost_broker_does_not_prevent_restore() -> None:
    rig = Rig(ALL)

    def dies(rig: Rig) -> FollowerSample:
        rig.deaf = {3} if rig.default == 4 else rig.deaf
        return FollowerSample(rig.at_s, len(rig.deaf), 0, 0)

    rig.health = dies
    found = applied(rig, 8)
    assert found.restored
    assert (rig.default, rig.read_values()) == (None, {1: 1, 2: 1})
    assert "Broker 3 does not answer: its value is not known." in rig.said


def test_resize_run_broker_without_new_value_is_named() -> None:
    rig = Rig(ALL)
    rig.deaf = {3}
    found = applied(rig, 2)
    assert found == ResizeOutcome(1, False, "not in force within 15 s on broker 3 (no answer)", restored=True)


def test_resize_run_failed_restore_names_values_and_remedy() -> None:
    settings = {b: FetcherSetting(1, is_set_on_broker=True) for b in (1, 2)}
    rig = Rig(settings)
    rig.health = lambda r: FollowerSample(r.at_s, len(r.written), 0, 0)
    rig.refuses = lambda rig, place, _: "nobody answers" if place == 2 and len(rig.written) >= 2 else None
    found = applied(rig, 2, settings=settings)
    assert (found.current, found.changed, found.restored) == (2, True, False)
    assert found.why == (
        "2 partitions have a replica that is not in sync, 0 had before the change; and the previous value could not be restored everywhere "
        "(broker 2: nobody answers). Now in force, by broker: 1: 1, 2: 2. Try again with `rheostat fetchers --apply --value 1`"
    )


@pytest.mark.parametrize("after_s", [1.0, 20.0, 70.0, 90.0])
def test_resize_run_ctrl_c_restores(after_s: float) -> None:
    class Impatient(Rig):
        pressed = False

        def wait(self, seconds: float) -> None:
            super().wait(seconds)
            if self.at_s > after_s and not self.pressed:
                self.pressed = True
                raise KeyboardInterrupt

    rig = Impatient(ALL)
    with pytest.raises(KeyboardInterrupt):
        applied(rig, 8)
    assert (rig.default, rig.read_values()) == (None, {1: 1, 2: 1, 3: 1})


def test_resize_run_tolerates_only_short_outages() -> None:
    def away(from_s: float, to_s: float) -> Callable[[Rig], FollowerSample]:
        def health(rig: Rig) -> FollowerSample:
            if from_s < rig.at_s < to_s:
                raise Unreachable("nobody answers")
            return FollowerSample(rig.at_s, 0, 0, 0)

        return health

    rig = Rig(ALL)
    rig.health = away(10, 15)
    assert applied(rig, 2) == ResizeOutcome(2, changed=True)
    rig = Rig(ALL)
    rig.health = away(10, 25)
    assert applied(rig, 2).why == "the cluster does not answer"


# -- as it is asked for ----------------------------------------------------------------------------------------------------

APPLY = ["-c", "none.yaml", "--apply"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([*APPLY, "--yes"], "none.yaml: cannot be read: No such file or directory"),
        ([*APPLY, "--yes", "--value", "0"], "'--value'"),
        ([*APPLY, "--yes", "--value", "33"], "'--value'"),
        ([*APPLY, "--yes", "--observe-for", "soon"], "'--observe-for': expected"),
        (["-c", "none.yaml", "--value", "4"], "--value: nothing is changed without --apply"),
        (["-c", "none.yaml", "--yes"], "--yes: nothing is changed without --apply"),
        (["-c", "none.yaml", "--observe-for", "2min"], "--observe-for: nothing is changed without --apply"),
    ],
)
def test_bad_input_is_refused_by_name(arguments: list[str], named: str) -> None:
    assert named in " ".join(refused(*arguments).replace("│", " ").split())


def test_apply_without_terminal_and_yes_is_not_confirmed() -> None:
    done = Command("fetchers").run(*APPLY)
    assert isinstance(done.exception, NotConfirmedError)
    assert "give --yes" in str(done.exception)


def test_targets_text_names_targets_and_brokers() -> None:
    both = ResizePlan(2, 4, (1, 2, 3), {CLUSTER_DEFAULT: None, 3: 2}, {})
    assert targets_text(both) == "the cluster's default and on broker 3 (for broker 1, 2, 3)"


def test_change_line_names_steps_places_and_time() -> None:
    assert _change_line(plan_resize(ALL, None, 5), 120.0) == (
        "Set num.replica.fetchers from 1 to 2, 4, 5 on the cluster's default (for broker 1, 2, 3), and watch each step for 2 min."
    )


def test_wall_clock_raises_ctrl_c_only_while_waiting() -> None:
    with DeferredCtrlC() as ctrl_c:
        clock = InterruptibleClock(ctrl_c)
        os.kill(os.getpid(), signal.SIGINT)  # In a call: nothing is raised here.
        began_s = clock.now_s()
        with pytest.raises(KeyboardInterrupt):
            clock.wait(30.0)
        clock.wait(0.0)
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            clock.wait(30.0)
        timer.join()
        assert clock.now_s() - began_s < 15.0


def test_resize_run_second_ctrl_c_does_not_stop_restore() -> None:
    rig = Rig(ALL)
    with DeferredCtrlC() as ctrl_c:

        class Clock:
            """Raises Ctrl-C twice while the second step is watched."""

            def now_s(self) -> float:
                return rig.at_s

            def wait(self, seconds: float) -> None:
                ctrl_c.check()
                rig.wait(seconds)

        def health(r: Rig) -> FollowerSample:
            if r.default == 4 and not pressed:
                pressed.append(True)
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGINT)
            return FollowerSample(r.at_s, 0, 0, 0)

        pressed: list[bool] = []
        rig.health = health
        asked = plan_resize(ALL, None, 8)
        with pytest.raises(KeyboardInterrupt):
            ResizeRun(rig, asked, 30.0, Clock(), rig.said.append, rig.shares.append).run()
        ctrl_c.check()
    assert (rig.default, rig.read_values()) == (None, {1: 1, 2: 1, 3: 1})


def test_resize_run_ctrl_c_in_last_sample_restores() -> None:
    rig, ended = Rig(ALL), []

    class Clock:
        def now_s(self) -> float:
            return rig.at_s

        def wait(self, seconds: float) -> None:
            rig.wait(seconds)
            if seconds == 0.0:
                ended.append(True)
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ResizeRun(rig, plan_resize(ALL, None, 2), 30.0, Clock(), rig.said.append, rig.shares.append).run()
    assert ended
    assert rig.read_values() == {1: 1, 2: 1, 3: 1}
