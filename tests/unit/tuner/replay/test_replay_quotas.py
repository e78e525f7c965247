"""Mutation quota cycles replay to the same decisions, bit for bit; differences are found."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from fake_quotas import FakeQuotas
from mutation_rig import controller, tenant
from quota_film import BEGAN_S, Filmed, FilmedJournal, differing, replayed
from replay_rig import FilmedRig
from test_mutation_quota_controller import ALICE, BOB, PAUSED, RELEASED
from tuner_cases import LIMITS, STALL

from streaming.shared.contract import BrokerSignal
from tuner.control.mutation_quota import total_update
from tuner.control.mutation_quota.model import MutationLimits, MutationPolicy, TenantRule
from tuner.control.throttle.state import Memory
from tuner.core.controller import ControllerObjective
from tuner.core.operator_orders import Orders
from tuner.core.quota_window import QuotaWindow
from tuner.core.throttle_limits import MB
from tuner.journal.delta_stream import FRAME_EVERY_S
from tuner.journal.settings_snapshot import SettingsSnapshot
from tuner.replay.compare import compare_steps
from tuner.replay.recording import MissedSteps, decode_chunk, recorded_steps
from tuner.replay.replayer import ReplayedStep

ALWAYS = (0, 2**53)
RULES = (TenantRule(user="a*", weight=3.0, rate_per_s_min=2.0), TenantRule(client_id="ops", exempt=True))


def stormy(*, dry_run: bool = False, policy: MutationPolicy | None = None) -> Filmed:
    """A storm of three tenants, an external quota change, pause and resume, unreadable quotas, missing signals, and a release."""
    rig = Filmed(FakeQuotas({BOB: 70.0}), policy or MutationPolicy(rules=RULES), dry_run=dry_run)
    rig.cycles(14, "alice", "bob", "carol")
    rig.quotas.rates[ALICE] = 3.0
    rig.cycles(8, "alice", "bob", "carol")
    rig.orders.latest = PAUSED
    rig.cycles(2, "alice", "bob")
    now_ms = round(rig.now_s * 1000)
    rig.orders.latest = Orders(at_ms=now_ms, resumed_at_ms=now_ms)
    rig.cycles(4, "alice", "bob", "dora")
    rig.quotas.away = True
    rig.cycles(2, "alice", "bob")
    rig.quotas.away = False
    rig.cycles(16)
    rig.cycles(5, "alice", "bob")
    rig.orders.latest = replace(RELEASED, at_ms=round(rig.now_s * 1000))
    rig.cycles(3, "alice", "bob")
    return rig


def actions(played: Sequence[ReplayedStep]) -> set[str]:
    return {row["action"] for one in played for row in one.decisions["rows"]}


def frames(played: Sequence[ReplayedStep]) -> int:
    return sum(one.step.frame is not None for one in played)


def test_replay_storm_has_same_decisions() -> None:
    rig = stormy()
    played = rig.replayed()
    assert actions(played) == {"total", "set_quota", "restore_quota", "relinquish_quota", "hold_quota"}
    assert len(played) == len(rig.observer.seen) == 54
    assert differing(played) == []
    # What is on record of each cycle is what was shown and written then.
    for one, (_, made, _) in zip(played, rig.observer.seen, strict=True):
        assert one.texts == tuple(decision.text for decision in made.decisions)


def test_recording_has_cluster_wide_measures() -> None:
    rig = Filmed(policy=MutationPolicy(ControllerObjective(apply_lag_ms_max=500.0)))
    for lag_ms in (20.0, 30.0, 30.0, 900.0, 1_700.0, 900.0, 900.0, 40.0, 30.0):
        lagging = BrokerSignal("c", 3, 0, round(rig.now_s * 1000), 6, 1.0, metadata_lag_ms=lag_ms)
        rig.signals.brokers = {3: lagging}
        rig.cycles(2, "alice", "bob")
    played = rig.replayed()
    assert any("the slowest node applies metadata 1700 ms late" in text for one in played for text in one.texts)
    assert differing(played) == []


def test_quota_dry_run_is_recorded_and_replayed() -> None:
    rig = stormy(dry_run=True)
    played = rig.replayed()
    assert "set_quota" in actions(played)
    assert differing(played) == []
    assert rig.filmed.records == []


def test_replay_removed_quotas_has_same_decisions() -> None:
    rig = Filmed()
    rig.cycles(3, "alice")
    after = Filmed(rig.quotas, asked=False, journal=rig.filmed, now_s=rig.now_s)
    after.cycles(3, "alice")
    played = after.replayed()
    assert played[-1].step.settings.quotas is None
    assert "restore_quota" in actions(played[3:])
    assert differing(played) == []


def test_recording_without_decisions_is_empty() -> None:
    rig = Filmed(policy=MutationPolicy(default_entity=None))
    rig.cycles(40)
    assert len(rig.replayed()) == 13, "the first word, and a minute"
    calm = len(rig.filmed.film)
    rig.cycles(40)
    assert len(rig.filmed.film) == calm
    rig.cycles(2, "alice")
    played = rig.replayed()
    assert (len(played), frames(played)) == (15, 2)
    assert differing(played) == []


def long_stormy() -> Filmed:
    """The controller is pressed again and again."""
    rig = Filmed()
    for cycle in range(round(FRAME_EVERY_S / 5) + 30):
        rig.storm("alice", "bob")
        rig.signals.controllers = {1: controller(round(rig.now_s * 1000), idle=0.8 if cycle % 20 < 10 else 0.1)}
        rig.cycle()
    return rig


def test_replay_begins_at_any_frame() -> None:
    rig = long_stormy()
    whole = rig.replayed()
    assert frames(whole) == 2
    assert differing(whole) == []
    missed = MissedSteps()
    later = list(recorded_steps(map(decode_chunk, rig.filmed.film[40:]), missed))
    assert missed.before_a_frame > 60
    assert 0 < len(later) < 60
    assert differing(rig.replayed(rig.filmed.film[40:])) == []


def test_replay_after_kill_has_two_runs() -> None:
    """The tuner is killed during a write whose outcome is unknown."""
    rig = Filmed()
    rig.cycles(3, "alice", "bob")
    rig.caller.holds = True
    rig.storm("alice", "bob", "carol")
    rig.loop.tick()
    rig.caller.go()
    rig.loop.tick()
    after = Filmed(rig.quotas, journal=rig.filmed, now_s=rig.now_s + 30)
    after.cycles(4, "alice", "bob", "carol")
    played = after.replayed()
    assert [one.step.run for one in played] == 4 * ["run 1"] + 4 * ["run 2"]
    assert frames(played) == 2
    assert differing(played) == []


def test_replay_quotas_missing_record_skips_to_next_frame() -> None:
    rig = stormy()
    whole = rig.filmed.film
    missed = MissedSteps()
    steps = list(recorded_steps([decode_chunk(r) for i, r in enumerate(whole) if i != 6], missed))
    assert (len(steps), missed.before_a_frame) == (6, 47)
    assert differing(rig.replayed(whole[:6])) == []


def test_recording_failed_write_is_followed_by_a_frame() -> None:
    rig = Filmed()
    rig.cycles(4, "alice")
    rig.journal.away = True
    rig.cycles(2, "alice", "bob")
    rig.journal.away = False
    rig.cycles(4, "alice", "bob")
    played = rig.replayed()
    assert (len(played), frames(played)) == (8, 2)
    assert differing(played) == []


def test_recording_lost_hold_record_is_repeated() -> None:
    rig = Filmed()
    rig.journal.away = True
    rig.quotas.away = True
    rig.cycle("alice")
    rig.journal.away = False
    rig.cycle("alice")
    assert [e.reason for e in rig.journal.entries] == ["quotas_unreadable"]
    assert len(rig.replayed()) == 1


def test_recording_changed_settings_begin_a_frame() -> None:
    found = {QuotaWindow()}
    rig = Filmed(windows=lambda: found)
    rig.cycles(3, "alice")
    found = {QuotaWindow(samples=21)}
    rig.cycles(3, "alice")
    played = rig.replayed()
    assert frames(played) == 2
    assert [one.step.settings.quotas.limits.samples for one in played if one.step.settings.quotas] == 3 * [11] + 3 * [
        21
    ]
    assert differing(played) == []


# -- beside the throttles ---------------------------------------------------------------------------------------------


def beside_a_move() -> FilmedRig:
    """A move begins, ends and begins again while a storm goes on, and the storm ends while it runs."""
    throttles = FilmedRig(Memory())
    moves, throttles.live.moves = throttles.live.moves, ()
    inputs = throttles.journal.inputs
    assert inputs is not None
    # Room enough that the total goes on rising: of a minute in which nothing is decided nothing is filmed.
    roomy = MutationPolicy(ControllerObjective(burst_ms_max=1e7))
    quotas = Filmed(policy=roomy, journal=FilmedJournal(film=throttles.journal.records), inputs=inputs)
    for cycle in range(60):
        throttles.live.moves = moves if 5 <= cycle < 15 or cycle >= 25 else ()
        throttles.goes_on(5, gained_bytes_per_s=40 * MB * (cycle % 2))
        quotas.cycle(*(("alice", "bob") if cycle < 40 else ("bob",)))
    return throttles


def test_replay_quota_and_throttle_streams_are_separate() -> None:
    rig = beside_a_move()
    played = rig.replayed()
    of_quotas = [one for one in played if one.step.kind == "quotas"]
    of_moves = [one for one in played if one.step.kind == "cycle"]
    assert len(of_quotas) == 60
    assert (frames(of_quotas), frames(of_moves)) == (1, 2)
    assert differing(played) == []
    found = compare_steps(played, *ALWAYS, differences_max=3)
    assert (found.quotas.same, found.quotas.different, found.cycles.same) == (60, 0, len(of_moves))
    assert found.steps == len(played)
    assert found.quota_decisions.same == sum(len(one.texts) for one in of_quotas) > 60
    assert found.decisions.same == sum(len(one.texts) for one in of_moves)


def test_replay_lost_records_restart_each_stream_at_its_frame() -> None:
    rig = beside_a_move()
    records = rig.journal.records
    frames_at = [i for i, r in enumerate(records) if any("frame" in h for h in json.loads(r)["headers"])]
    assert len(frames_at) == 3
    # After the second beginning of the move nothing comes that begins the quotas again.
    played = rig.replayed(records[: frames_at[1] - 2] + records[frames_at[1] - 1 :])
    later = [one.step.kind for one in played if one.step.number >= 20]
    assert set(later) == {"cycle"}
    assert differing(played) == []


# -- what is not the same ---------------------------------------------------------------------------------------------


def test_compare_changed_quota_law_has_both_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = stormy()
    original = total_update.burst_cap_per_s
    monkeypatch.setattr(total_update, "burst_cap_per_s", lambda *asked: 0.01 * original(*asked))
    found = compare_steps(rig.replayed(), *ALWAYS, differences_max=50)
    assert found.quotas.different > 10
    assert found.different >= found.quotas.different
    totals = [d for d in found.differences if d.then.startswith("total, ")]
    assert totals[0].now.startswith("total, ")
    assert totals[0].now.endswith(" partitions/s)")
    assert totals[0].now != totals[0].then
    assert {d.kind for d in found.differences} == {"quotas"}
    assert any(d.then.startswith("set_quota, fair_share: user 'alice': ") for d in found.differences)


def test_compare_changed_quota_constant_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = stormy()
    original = MutationLimits.__init__

    def other(self: MutationLimits, **given: float) -> None:
        original(self, **({"demand_slack": 1.3} | given))

    monkeypatch.setattr(MutationLimits, "__init__", other)
    found = compare_steps(rig.replayed(), *ALWAYS, differences_max=5)
    assert found.quotas.different > 0


def test_compare_different_quota_memory_is_reported_at_next_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = long_stormy()
    original = total_update.learn_from_window
    monkeypatch.setattr(
        total_update, "learn_from_window", lambda *asked: replace(original(*asked), steps=original(*asked).steps + 1)
    )
    found = compare_steps(rig.replayed(), *ALWAYS, differences_max=1000)
    [told] = [d for d in found.differences if d.kind == "memory"]
    assert "mutation.cost" in told.now


def test_replay_other_policy_decides_differently() -> None:
    rig = stormy()
    then = rig.replayed()[0].step.settings
    assert then.quotas == MutationPolicy(rules=RULES)
    heavier = replace(then, quotas=replace(then.quotas, rules=(TenantRule(user="bob", weight=9.0),)))
    found = compare_steps(rig.replayed(policy=heavier), *ALWAYS, differences_max=40)
    assert found.quotas.different > 0
    assert any("user 'bob'" in d.now and "(rule 1 of " in d.now for d in found.differences)
    unasked = compare_steps(rig.replayed(policy=replace(then, quotas=None)), *ALWAYS, differences_max=40)
    assert any("every managed quota is restored" in d.now for d in unasked.differences)


def test_compare_decisions_of_one_quota_in_order() -> None:
    rig = stormy()
    [one] = [p for p in rig.replayed() if p.step.number == 1]
    rows = one.step.decisions["rows"]
    hold = {
        "action": "hold_quota",
        "entity": "user 'alice'",
        "reason": "would_shadow_existing",
        "text": "left without one",
    }
    then = {**one.step.decisions, "rows": [*rows, hold]}
    now = {**one.decisions, "rows": [*rows, {**hold, "text": "another"}]}
    found = compare_steps(
        [replace(one, step=replace(one.step, decisions=then), decisions=now)], *ALWAYS, differences_max=5
    )
    assert [(d.then, d.now) for d in found.differences] == [
        ("hold_quota, would_shadow_existing: left without one", "hold_quota, would_shadow_existing: another")
    ]


# -- what is on record ------------------------------------------------------------------------------------------------


def test_replay_records_without_quotas_are_read() -> None:
    rig = FilmedRig(Memory())
    rig.goes_on(60)
    older = []
    for record in rig.journal.records:
        body = json.loads(record)
        for header in body["headers"]:
            header.get("settings", {}).pop("quotas", None)
        older.append(json.dumps(body).encode())
    assert older != rig.journal.records
    played = rig.replayed(older)
    assert len(played) == len(rig.replayed()) > 10
    assert differing(played) == []


def test_recording_has_policy_that_differs_from_defaults() -> None:
    policy = MutationPolicy(rules=RULES, limits=MutationLimits(samples=21), default_entity=None, partitions_max=5_000)
    body = json.loads(json.dumps(SettingsSnapshot(LIMITS, STALL, quotas=policy).body()))
    assert body["quotas"]["limits"] == {"samples": 21}
    assert SettingsSnapshot.from_body(body).quotas == policy
    everybody = MutationPolicy()
    assert (
        SettingsSnapshot.from_body(
            json.loads(json.dumps(SettingsSnapshot(LIMITS, STALL, quotas=everybody).body()))
        ).quotas
        == everybody
    )


def test_recording_thousand_tenants_fit_their_transaction() -> None:
    """The first in the second with the frame that it begins with, and each after it whole and in small records."""
    rig = Filmed()
    for cycle in range(12):
        at_ms = round(rig.now_s * 1000)
        rig.signals.controllers = {1: controller(at_ms, idle=0.9 - 0.05 * (cycle % 3))}
        rig.signals.tenants = {
            (1, f"team-{i}", None): tenant(at_ms, i / 7, -1.0 if (i + cycle) % 3 else 1e9, user=f"team-{i}")
            for i in range(1_000)
        }
        rig.cycle()
        assert not rig.inputs.has_pending, f"cycle {cycle} is held back"
    assert max(map(len, rig.filmed.film)) < 300_000
    played = rig.replayed()
    assert len(played) == 12
    assert differing(played) == []


def test_replay_quotas_interleaved_records_of_two_tuners() -> None:
    one, other = stormy(), stormy(policy=MutationPolicy(adopt_existing=False))
    theirs = [json.dumps(json.loads(r) | {"run": "other"}).encode() for r in other.filmed.film]
    mixed = [r for pair in zip(one.filmed.film, theirs, strict=False) for r in pair]
    played = replayed(mixed)
    assert {p.step.run for p in played} == {"run 1", "other"}
    assert differing(played) == []
    assert played[0].step.now_ms == round(BEGAN_S * 1000)
