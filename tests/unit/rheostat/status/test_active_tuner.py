"""The first lines of `rheostat status`: the active tuner, moves, stalls, and the next steps."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from command_rig import Command
from rich.console import Console
from test_status_screen import ACTS, ORDERS, SETTINGS, measured, status, still_for
from tuner_cases import NOW_MS, SOURCE, TARGET, live, move_signal

from rheostat.status import report as status_module
from rheostat.status.active_tuner import tuner_json, tuner_lines
from rheostat.status.journal import JournalFollower
from rheostat.status.report import needs_a_tuner
from rheostat.status.screen import RateHistory, render_screen
from rheostat.status.signal_history import SignalHistory
from rheostat.status.text import print_status
from streaming.shared.contract import MoveStep
from tuner.core.plan_progress import Progress
from tuner.core.presence import TunerMode, TunerPresence
from tuner.core.throttle_limits import MB
from tuner.journal.entries import Entry
from tuner.journal.presence_records import encode_presence, presence_key
from tuner.journal.topic_reader import JournalRecord

AT = "on host:7 since 2023-11-14 22:12:20 UTC"
DRY = replace(ACTS, mode=TunerMode.DRY_RUN)
WAITS = replace(ACTS, mode=TunerMode.STANDBY, waits_for="another tuner has the lease")
STARTS = replace(ACTS, mode=TunerMode.STARTING, waits_for="Spark starts")


def text_of(found: dict[str, Any]) -> str:
    text = io.StringIO()
    print_status(found, Console(file=text, width=400))
    return text.getvalue()


def test_status_with_clock_behind_the_brokers_sees_the_tuner(monkeypatch: pytest.MonkeyPatch) -> None:
    """By this machine's clock the tuner's report lies in the future, so the journal follower ignores it."""
    journal = JournalFollower("lab")
    journal.apply(JournalRecord(presence_key("lab", ACTS.holder), encode_presence(ACTS), 0, "journal", NOW_MS + 10_000))
    assert journal.tuners(NOW_MS) == ()
    for name, value in {
        "probe": lambda _: None,
        "ClusterClient": lambda *_: nullcontext(SimpleNamespace(brokers=lambda: None)),
        "ClusterReader": lambda _: SimpleNamespace(snapshot=lambda **_: live()),
        "read_journal_state": lambda _: journal,
        "read_log_dirs": lambda *_: [],
        "read_lease_holders": lambda *_: {},
        "read_cordon_rows": lambda *_: [],
        "read_tuners": lambda *_: (ACTS,),
        "_read_signals": lambda _: SignalHistory(
            cast(Any, SimpleNamespace(partitions_for_topic=lambda _: None)), "signals", "lab"
        ),
    }.items():
        monkeypatch.setattr(status_module, name, value)
    assert status_module.read_status(SETTINGS)["tuner"]["state"] == "active"


@pytest.mark.parametrize(
    ("tuners", "lines"),
    [
        ([ACTS], [f"Tuner: active {AT}."]),
        ([DRY], [f"Tuner: dry run {AT}. It decides, but changes nothing; no tuner acts."]),
        ([STARTS], [f"Tuner: starting {AT}; no tuner acts yet.", "It waits: Spark starts."]),
        ([WAITS], [f"Tuner: standby {AT}; no tuner acts.", "It waits: another tuner has the lease."]),
        ([], ["Tuner: none runs. No throttle is changed, and existing throttles stay. `rheostat run` starts a tuner."]),
        ([ACTS, WAITS, DRY], [f"Tuner: active {AT}.", "Other tuners: standby on host:7, dry run on host:7."]),
        (
            [replace(ACTS, rate_bytes_per_s_max=12e6, page="http://host:9464/")],
            [
                f"Tuner: active {AT}.",
                "Status page: http://host:9464/",
                "Its ceiling is 12.0 MB/s; this command's settings file has 50.0 MB/s.",
            ],
        ),
        (
            [replace(ACTS, waits_for="no broker signal has arrived yet")],
            [f"Tuner: active {AT}.", "It has a problem: no broker signal has arrived yet."],
        ),
    ],
)
def test_first_lines_say_which_tuner_acts(tuners: list[TunerPresence], lines: list[str]) -> None:
    assert tuner_lines(tuner_json(tuners, 50e6)) == lines
    found = status(tuners=tuners)
    assert text_of(found).splitlines()[: len(lines)] == lines
    text = io.StringIO()
    Console(file=text, width=400).print(render_screen(found, RateHistory()))
    assert [line.rstrip() for line in text.getvalue().splitlines()[: len(lines)]] == lines


def test_status_lines_follow_the_order_of_the_runbook() -> None:
    why = "broker 3 follower throttle: the move has stalled, and no throttle holds it"
    last = Entry(NOW_MS, "decision", "hold", "stalled_source_bound", why, {"broker": 3, "side": "follower"})
    text = text_of(status(measured(still_for(60)), None, last, tuners=[ACTS]))
    asked = [
        "Tuner: active", "Now: 1 partition is moving onto broker 3; 600 MB remain. The move onto broker 3 has stalled.",
        "Stalled: the move onto broker 3 since 2023-11-14 22:12:40 UTC.", "Next: ", "Last decision of each throttle:",
        f"  2023-11-14 22:13:20 {why} (no change)",
    ]  # fmt: skip
    lines = text.splitlines()
    found = [next(n for n, line in enumerate(lines) if line.startswith(part)) for part in asked]
    assert found == sorted(found)


@pytest.mark.parametrize("tuners", [[], [DRY], [WAITS], [STARTS], [ACTS]])
def test_stalled_move_without_active_tuner_exits_with_1(
    tuners: Sequence[TunerPresence], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "rheostat.yaml"
    config.write_text(
        "cluster: lab\nkafka: {bootstrap_servers: 'x:1'}\nstream: {checkpoint_dir: /x}\ntuner: {rate_bytes_per_s_max: 5e7}\n"
    )
    acts = tuners == [ACTS]
    never = measured(steady_state=55 * MB)
    for signals, well in ((measured(), True), (measured(still_for(60)), acts), (never, acts)):
        found = status(signals, tuners=tuners)
        assert needs_a_tuner(found) is not well
        monkeypatch.setattr(status_module, "read_status", lambda _, found=found: found)
        code = 0 if well else 1
        assert Command("status").run("--config", str(config)).exit_code == code
        record = Command("status").record("--config", str(config), code=code)
        assert record == json.loads(json.dumps(found)), "--json has the same facts"


def test_without_active_tuner_next_steps_are_simulated() -> None:
    stalled = measured(replace(still_for(60), remaining_slope_bytes_per_s=0.0), steady_state=11 * MB)
    for tuners, subject in (([], "An active tuner"), ([DRY], "The dry run")):
        steps = status(stalled, tuners=tuners)["next"]
        assert steps[0].startswith(f"{subject} would do this: broker 1 leader throttle 10.0 MB/s → ")
    assert status(tuners=[])["next"] == ["An active tuner would change nothing now."]
    assert (
        status(orders=ORDERS, tuners=[DRY])["next"][0]
        == "The tuner changes nothing, and waits for an operator to resume."
    )
    # The running tuner's maximum rate counts, not that of the settings file.
    low = replace(DRY, rate_bytes_per_s_max=12e6)
    assert "→ 12.0 MB/s" in status(stalled, tuners=[low])["next"][0]


def test_expected_end_is_that_of_the_plan() -> None:
    plans = {"p": Progress(1e9, 5e8, 410.0, is_advancing=True)}
    found = status(plans=plans)
    assert (found["eta_s"], found["ends_at_ms"]) == (400.0, NOW_MS + 400_000)
    assert "500 MB of the plans remain, done in about 6 min 40 s." in text_of(found)
    assert status()["eta_s"] == 300.0


def test_signal_history_joins_the_steps_of_the_last_minute() -> None:
    history = SignalHistory(cast(Any, None), "signals", "lab")
    for signal in measured().moves.values():
        history.add(signal)
    for back in range(8, -1, -1):
        at_ms = NOW_MS - 5_000 * back
        steps = tuple(MoveStep(at_ms - 5_000 * n, 5.0, 0.0, 0.0, 600 * MB) for n in range(2))
        history.add(replace(move_signal(*TARGET, slope=0.0, steps=steps), sampled_at_ms=at_ms, samples=7))
    assert status(history)["stalled_brokers"] == [], "ten seconds of the newest signal"
    history.merge_steps()
    assert len(history.moves[TARGET].steps) == 10
    assert status(history)["stalled_brokers"] == [3]
    history.merge_steps(since_ms=NOW_MS - 15_000)
    assert status(history)["stalled_brokers"] == [], "a rate was changed 15 s ago"
    assert history.moves[SOURCE].steps == ()


def test_stall_found_by_the_running_tuner_counts() -> None:
    """With closed-loop control a single observation cannot find a stall."""
    said = {"broker": 3, "side": "follower"}
    last = Entry(
        NOW_MS - 9_000, "decision", "hold", "stalled_source_bound", "broker 3 follower throttle: stalled", said
    )
    for tuners, stalled in (([ACTS], [3]), ([DRY], [3]), ([WAITS], []), ([], [])):
        found = status(None, None, last, tuners=tuners)
        assert found["stalled_brokers"] == stalled
    assert "Stalled: the move onto broker 3 since 2023-11-14 22:13:11 UTC." in text_of(status(None, None, last))
    over = Entry(NOW_MS, "decision", "hold", "progressing", "broker 3 follower throttle: 600 MB remain", said)
    assert status(None, None, last, over)["stalled_brokers"] == []


def test_status_follows_the_presence_of_tuners() -> None:
    followed = JournalFollower("lab")

    def apply(key: bytes, value: bytes | None, at_ms: int = NOW_MS) -> None:
        followed.apply(JournalRecord(key, value, 0, "rheostat.journal", at_ms))

    key = presence_key("lab", "host:7")
    apply(key, encode_presence(DRY))
    assert [t.mode for t in followed.tuners(NOW_MS)] == [TunerMode.DRY_RUN]
    apply(key, encode_presence(ACTS), NOW_MS + 5_000)
    apply(presence_key("other", "x:1"), encode_presence(ACTS))
    assert [t.mode for t in followed.tuners(NOW_MS + 24_000)] == [TunerMode.ACTIVE]
    assert followed.tuners(NOW_MS + 26_000) == (), "it has not reported for 21 s"
    apply(key, b"not a presence")
    assert followed.tuners(NOW_MS) == ()
    apply(key, encode_presence(ACTS))
    apply(key, None)
    assert followed.tuners(NOW_MS) == ()


def test_decision_of_a_dry_run_is_shown_as_not_done() -> None:
    text = "broker 1 leader throttle 10.0 MB/s → 50.0 MB/s: the move onto broker 3 has stalled"
    said = {"broker": 1, "side": "leader", "current_bytes_per_s": 10 * MB, "setpoint_bytes_per_s": 50 * MB}
    intent = Entry(NOW_MS, "intent", "set", "stalled_throttle_bound", text, said, dry_run=True)
    found = status(None, None, intent, tuners=[DRY])
    assert f"{text} (dry run: not executed)" in text_of(found)
    assert "intent" not in text_of(found)
    assert found["last_decisions"][0]["outcome"] == "dry_run"
