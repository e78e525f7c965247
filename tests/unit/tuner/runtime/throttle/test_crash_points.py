"""SIGKILL between any two steps: before and after each record and each write, one run for each.

Whatever the moment, the tuner that starts afterwards takes what it finds for its own and for nobody else's, and when all is
over what stood before stands again. A person's value stands throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from loop_rig import Rig
from test_list_writer import unthrottled
from test_plan_moves import plan
from test_steering_tick import seconds, steered
from tuner_cases import NOW_MS, SOURCE, STALLED, TARGET, WELL, move, throttle

from streaming.shared.throttle_settings import TopicThrottle
from tuner.control.throttle.state import Memory
from tuner.core.operator_orders import Orders, Pause
from tuner.core.prepare_handshake import PrepareHandshake
from tuner.core.throttle_limits import MB

Step = Callable[[Rig], object]
POINTS_MAX = 400


class Killed(BaseException):
    """Like SIGKILL: no code catches it."""


class Fuse:
    """Ends the process at the n-th point."""

    def __init__(self, rig: Rig, at: int) -> None:
        self.left = at
        self.passed = 0
        rig.journal.write = self.around(rig.journal.write)  # type: ignore[method-assign]
        rig.throttles.write_rates = self.around(rig.throttles.write_rates)  # type: ignore[method-assign]
        rig.throttles.clear_lists = self.around(rig.throttles.clear_lists)  # type: ignore[method-assign]
        rig.throttles.add_pairs = self.around(rig.throttles.add_pairs)  # type: ignore[method-assign]
        rig.throttles.remove_pairs = self.around(rig.throttles.remove_pairs)  # type: ignore[method-assign]

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self.point()
            found = call(*args, **kwargs)
            self.point()
            return found

        return wrapped

    def point(self) -> None:
        self.passed += 1
        self.left -= 1
        if self.left == 0:
            raise Killed


def cycle(rig: Rig) -> None:
    rig.now_s += 5.0
    rig.loop.cycle()


def a_second(rig: Rig) -> None:
    seconds(rig, 1)


def ramp_step(rig: Rig) -> None:
    rig.now_s += 0.5
    rig.loop.tick()


def the_move_ends(rig: Rig) -> None:
    rig.live.moves = ()


RESCUE: tuple[Step, ...] = (cycle, *[ramp_step] * 30, cycle, the_move_ends, *[cycle] * 8)
LAW: tuple[Step, ...] = (cycle, *[a_second] * 6, cycle, *[a_second] * 4, the_move_ends, *[cycle] * 8)


STANDING = {
    "orders": throttle(leader=[(7, 1), (0, 1)], follower=[(0, 3)]),
    "payments": throttle(leader=[(1, 1)]),
}


def one_partition_joins(rig: Rig) -> None:
    rig.live.moves = (move(),)


def the_tool_sweeps(rig: Rig) -> None:
    """As `kafka-reassign-partitions --verify` does it: every rate, and the lists of a topic."""
    rig.throttles.rates.clear()
    rig.throttles.lists["orders"] = TopicThrottle()


LISTS: tuple[Step, ...] = (
    cycle, cycle, *[a_second] * 3, one_partition_joins, cycle, the_tool_sweeps, a_second, cycle, cycle, *[a_second] * 2,
    the_move_ends, *[cycle] * 8,
)  # fmt: skip


def nobody_throttled() -> Rig:
    rig = unthrottled()
    rig.live.moves = (move(), move(partition=1))
    rig.throttles.lists["payments"] = STANDING["payments"]
    return rig


def rescued() -> Rig:
    return Rig(Memory(stalls={3: STALLED}))


def run(make: Callable[[], Rig], steps: tuple[Step, ...]) -> Iterator[tuple[int, Rig]]:
    """One run for each point, until a run passes them all: the point and the rig at the end of it."""
    for at in range(1, POINTS_MAX):
        rig = make()
        fuse = Fuse(rig, at)
        for step in steps:
            try:
                step(rig)
            except Killed:
                rig.die_and_start_again()
        yield at, rig
        if fuse.left > 0:
            assert at > 20, "hardly anything was done: the run says nothing"
            return
    pytest.fail(f"more than {POINTS_MAX} points")


@pytest.mark.parametrize(("make", "steps"), [(rescued, RESCUE), (steered, LAW)], ids=["rescue", "law"])
def test_crash_move_leaves_no_throttle_behind(make: Callable[[], Rig], steps: tuple[Step, ...]) -> None:
    for at, rig in run(make, steps):
        assert rig.throttles.rates == {}, at
        assert not rig.throttles.lists["orders"], at
        assert rig.loop.memory.owned == {}, at
        assert rig.loop.memory.externally_owned_until_ms == {}, (
            f"{at}: the tuner took its own value for an external change"
        )


@pytest.mark.parametrize(("make", "steps"), [(rescued, RESCUE), (steered, LAW)], ids=["rescue", "law"])
def test_crash_preserves_throttle_used_by_others(make: Callable[[], Rig], steps: tuple[Step, ...]) -> None:
    def standing() -> Rig:
        rig = make()
        rig.throttles.lists |= STANDING
        return rig

    for at, rig in run(standing, steps):
        assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}, at
        assert rig.throttles.lists == STANDING, at
        assert rig.loop.memory.owned == {}, at
        assert rig.loop.memory.externally_owned_until_ms == {}, at


@pytest.mark.parametrize(("make", "steps"), [(rescued, RESCUE), (steered, LAW)], ids=["rescue", "law"])
def test_crash_preserves_operator_value(make: Callable[[], Rig], steps: tuple[Step, ...]) -> None:
    """Kim writes 7 MB/s over ours in the middle of it. Where we had nothing on record yet it is the throttle of Kim's
    move, and goes with it."""
    over_ours: list[bool] = []

    def kim(rig: Rig) -> None:
        over_ours.append(SOURCE in rig.loop.memory.owned)
        rig.throttles.rates[SOURCE] = 7 * MB

    middle = len(steps) // 3
    for at, rig in run(make, (*steps[:middle], kim, *steps[middle:])):
        assert rig.throttles.rates.get(SOURCE) == (7 * MB if over_ours[-1] else None), at
        assert TARGET not in rig.throttles.rates, at
    assert sum(over_ours) > 20


@pytest.mark.parametrize(("make", "steps"), [(rescued, RESCUE), (steered, LAW)], ids=["rescue", "law"])
def test_crash_with_release_restores_previous_rates(make: Callable[[], Rig], steps: tuple[Step, ...]) -> None:
    def release(rig: Rig) -> None:
        rig.orders.latest = Orders(NOW_MS, pause=Pause(NOW_MS, "kim@desk", released=True))

    middle = len(steps) // 2
    for at, rig in run(make, (*steps[:middle], release, *steps[middle:])):
        assert rig.throttles.rates == {SOURCE: 10 * MB, TARGET: 10 * MB}, at
        assert rig.loop.memory.owned == {}, at


def test_crash_unthrottled_move_leaves_no_managed_throttle() -> None:
    for at, rig in run(nobody_throttled, LISTS):
        assert rig.throttles.rates == {}, at
        assert rig.throttles.lists == {"orders": TopicThrottle(), "payments": STANDING["payments"]}, at
        assert (rig.loop.memory.owned, rig.loop.memory.listed) == ({}, {}), at
        assert rig.loop.memory.externally_owned_until_ms == {}, (
            f"{at}: the tuner took a cleared throttle for an external change"
        )


def test_crash_replicas_are_listed_again_within_two_cycles() -> None:
    for at, rig in run(nobody_throttled, (cycle, a_second, one_partition_joins, cycle, cycle, cycle)):
        assert rig.throttles.lists["orders"] == throttle(leader=[(0, 1), (0, 2)], follower=[(0, 3)]), at
        assert rig.throttles.rates.keys() == {SOURCE, (2, SOURCE[1]), TARGET}, at


def test_crash_with_release_of_unthrottled_move_restores() -> None:
    def release(rig: Rig) -> None:
        rig.orders.latest = Orders(NOW_MS, pause=Pause(NOW_MS, "kim@desk", released=True))

    for at, rig in run(nobody_throttled, (cycle, cycle, a_second, release, cycle, cycle)):
        assert rig.throttles.rates == {}, at
        assert rig.throttles.lists == {"orders": TopicThrottle(), "payments": STANDING["payments"]}, at
        assert (rig.loop.memory.owned, rig.loop.memory.listed) == ({}, {}), at


class Planned(Rig):
    """A plan of rheostat, without an objective, on a cluster where nothing moves and nothing is throttled."""

    def __init__(self) -> None:
        self.plans = [plan(asked=False)]
        super().__init__(Memory())
        self.throttles.rates.clear()
        self.throttles.lists = {"orders": TopicThrottle(), "payments": TopicThrottle()}
        self.live.moves = ()
        self.signals.moves = {}
        self.heed()

    def heed(self) -> None:
        self.announcing = PrepareHandshake()
        self.loop.connect_plans(dict, self.announcing, lambda: self.plans)

    def begin_another_term(self) -> None:
        super().begin_another_term()
        self.heed()

    def check(self) -> None:
        """What moves has rates within the ceiling, and is listed."""
        if self.live.moves:
            assert {SOURCE, TARGET} <= self.throttles.rates.keys()
            assert max(self.throttles.rates.values()) <= self.limits.rate_bytes_per_s_max
            assert self.throttles.lists["orders"] == throttle(leader=[(0, 1), (0, 2)], follower=[(0, 3)])


def the_step_is_announced(rig: Rig) -> None:
    """It is on record as asked for, and asked for where the tuner lets it go."""
    assert isinstance(rig, Planned)
    rig.plans[0] = plan()
    if not rig.live.moves:
        rig.announcing.submit([move()])
    cycle(rig)
    if rig.announcing.deferred == {}:
        rig.live.moves = (move(),)
        rig.announcing.clear()


def checked_tick(rig: Rig) -> None:
    assert isinstance(rig, Planned)
    rig.now_s += 1.0
    rig.loop.tick()
    rig.check()


def checked_cycle(rig: Rig) -> None:
    assert isinstance(rig, Planned)
    cycle(rig)
    rig.check()


def the_plan_ends(rig: Rig) -> None:
    assert isinstance(rig, Planned)
    rig.plans[0] = plan(asked=False)
    rig.live.moves = ()


PLAN: tuple[Step, ...] = (
    cycle, *[the_step_is_announced] * 3, *[checked_tick] * 4, checked_cycle, *[checked_tick] * 16, checked_cycle, the_plan_ends,
    *[cycle] * 8,
)  # fmt: skip


def test_crash_plan_stays_throttled_and_is_cleaned_up() -> None:
    for at, rig in run(Planned, PLAN):
        assert rig.throttles.rates == {}, at
        assert rig.throttles.lists == {"orders": TopicThrottle(), "payments": TopicThrottle()}, at
        assert (rig.loop.memory.owned, rig.loop.memory.listed) == ({}, {}), at
        assert rig.loop.memory.externally_owned_until_ms == {}, at


def test_crash_harness_hits_each_point_and_detects_lost_memory() -> None:
    """The check of the checks: without what was on record, what is left behind is seen."""
    left_behind = 0
    for at in range(1, 40):
        rig = steered(Memory(stalls={3: WELL}))
        rig.throttles.lists |= {"orders": throttle(leader=[(7, 1), (0, 1)], follower=[(0, 3)])}
        Fuse(rig, at)
        for step in LAW:
            try:
                step(rig)
            except Killed:
                rig.journal.memories.clear()
                rig.journal.owned.clear()
                rig.journal.listed.clear()
                rig.die_and_start_again()
        left_behind += rig.throttles.rates != {SOURCE: 10 * MB, TARGET: 10 * MB}
    assert left_behind > 0
