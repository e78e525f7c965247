"""The page of one decision: rule, earlier rules, inputs, replay command, and a decision that the tuner no longer holds."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import pytest
from api_rig import NOW_MS, Rig, entry
from typer.testing import CliRunner

from rheostat.cli import app
from tuner.api import decision_lookup
from tuner.api.decision_page import decision_values, earlier_rules, replay_command
from tuner.api.decisions import DecisionFilter, DecisionStore
from tuner.control.throttle.decision import Reason
from tuner.control.throttle.reason_texts import REASON_TEXTS

HOSTILE = "<img src=x>\u202e名前-" + "ü" * 237


def page_text(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", " ", html))


def test_decision_page_names_rule_rate_outcome_and_replay() -> None:
    rig = Rig()
    rig.cycle()
    rig.observers.decisions.add([entry("intent"), entry("outcome", at_ms=NOW_MS + 2_000)])
    (row,), _ = rig.observers.decisions.page(DecisionFilter(), 1)
    html = rig.get(f"/page/decision/{row.number}").text
    text = " ".join(page_text(html).split())
    assert row.entry.reason in text
    assert REASON_TEXTS[Reason(row.entry.reason)].effect.split("`")[0] in text
    assert "Outcome done after 2" in text
    assert "rheostat replay --from" in text
    assert f'href="/brokers?find={row.entry.decision["broker"]}"' in html


def test_unknown_decision_still_has_its_time_and_its_replay() -> None:
    rig = Rig()
    rig.cycle()
    html = rig.get(f"/page/decision/{NOW_MS * 2_000}").text
    assert "The journal has no decision with this id" in html
    assert replay_command(NOW_MS, None) in unescape(html)


def test_decision_with_a_threshold_says_what_it_would_have_taken() -> None:
    rig = Rig()
    rig.cycle()
    stall = {"lost_s": 14.5, "stalled": True, "observed_s": 40.0, "window": [[5.0, 0.0, 10e6], [5.0, 0.0, 10e6]]}
    inputs = {"stalls": {"3": stall}, "limits": {}, "move": None, "broker": None}
    rig.observers.decisions.add([entry("intent", inputs=inputs)])
    text = " ".join(page_text(rig.get(f"/page/decision/{NOW_MS * 2_000}").text).split())
    assert "Values that would change this decision" in text
    assert (
        "at least 1.00 MB/s (half of what the throttles allow) 0 B/s The move would have counted as progressing" in text
    )


def test_decision_that_only_the_journal_has_opens_after_a_restart() -> None:
    rig, old = Rig(), [entry("intent"), entry("outcome", at_ms=NOW_MS + 2_000)]
    rig.cycle()
    for offset, each in enumerate(old):
        rig.journal.add(each, offset)
    rig.journal.read_entries = lambda _offset, _count: old
    text = " ".join(page_text(rig.get(f"/page/decision/{NOW_MS * 2_000}").text).split())
    assert "Outcome done after 2" in text
    answer = rig.get(f"/api/v1/decisions/{NOW_MS * 2_000}")
    assert (answer.status_code, answer.json()["outcome"]) == (200, "done")


def test_decision_waits_for_the_journal_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_lookup, "_READ_S_MAX", 0.0)
    rig = Rig()
    rig.journal.mark_unreadable("the journal rheostat.journal cannot be read: no answer")
    assert "The journal rheostat.journal cannot be read: no answer." in rig.get("/page/decision/4000").text
    assert rig.get("/api/v1/decisions/4000").json()["detail"].startswith("The journal rheostat.journal cannot")


@pytest.mark.parametrize("number", ["-1", "x", str(2**53 + 1), "1e3"])
def test_invalid_number_is_refused(number: str) -> None:
    rig = Rig()
    assert rig.get(f"/decisions/{number}", None).status_code in (404, 422)
    assert rig.get(f"/page/decision/{number}").status_code in (404, 422)


@pytest.mark.parametrize("number", [0, 2**53])
def test_extreme_number_is_answered(number: int) -> None:
    rig = Rig()
    assert rig.get(f"/decisions/{number}", None).status_code == 200
    assert "rheostat replay" in rig.get(f"/page/decision/{number}").text


def test_hostile_names_are_text_and_long_inputs_are_cut() -> None:
    rig = Rig()
    rig.cycle()
    inputs = {"topics": {HOSTILE: 1.5}, "many": list(range(5_000)), **{f"input_{n}": n for n in range(300)}}
    rig.observers.decisions.add([replace(entry("decision"), inputs=inputs, text=HOSTILE)])
    (row,), _ = rig.observers.decisions.page(DecisionFilter(), 1)
    html = rig.get(f"/page/decision/{row.number}").text
    assert "<img" not in html
    assert f"topics.{HOSTILE}" in unescape(html)
    assert "200 of 302" in page_text(html)
    assert "characters)" in html
    assert len(html) < 60_000


def test_replay_command_quotes_the_cluster_and_is_understood() -> None:
    command = replay_command(NOW_MS, "it's one")
    assert command.endswith(" --cluster 'it'\"'\"'s one'")
    arguments = replay_command(NOW_MS, None).split()[1:]
    result = CliRunner().invoke(app, [*arguments, "--journal", "/nonexistent"])
    # The command reads the file only once it has understood the range.
    assert "/nonexistent: cannot be read" in str(result.exception)


def test_earlier_rules_are_those_that_the_controller_checks_first() -> None:
    codes = [code for code, _ in earlier_rules(Reason.FOLLOWS_CLIENTS)]
    assert codes[0] == Reason.BROKER_DOWN
    assert Reason.NO_HEADROOM in codes
    assert Reason.FOLLOWS_CLIENTS not in codes
    assert earlier_rules(Reason.CLUSTER_NOT_SEEN) == []
    assert earlier_rules("unheard_of") == []


def test_rules_of_the_throttle_do_not_explain_a_plan() -> None:
    store = DecisionStore()
    store.add([replace(entry("decision"), kind="steps", reason="paused")])
    (row,), _ = store.page(DecisionFilter(), 1)
    assert decision_values(row, row.number, None)["earlier"] == []
