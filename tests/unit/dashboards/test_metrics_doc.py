"""docs/reference/metrics.md shows the query of the annotations, and it describes the log lines correctly."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from docs_build.page import REFERENCE, ROOT
from rheostat.console.logs import set_up_logs
from streaming.shared.contract import Side
from tuner.control.mutation_quota.decision import QuotaReason, TotalRateReport
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.throttle.decision import ClearLists, Decision, Hold, Reason, RestoreRate, SetRate
from tuner.control.throttle.state import Memory
from tuner.core.throttle_limits import MB, ThrottleLimits
from tuner.journal.entries import Entry
from tuner.runtime.clock import Clock
from tuner.runtime.mutation_quota.recorder import MutationQuotaRecorder
from tuner.runtime.throttle.recorder import ThrottleRecorder

DOC = (REFERENCE / "metrics.md").read_text(encoding="utf-8")


def test_documented_annotation_matches_the_dashboards() -> None:
    board = json.loads((ROOT / "dashboards" / "rheostat-overview.json").read_text())
    told = re.findall(r"```\n(sum by .*?)```", DOC, re.S)
    assert [" ".join(told[0].split())] == [" ".join(board["annotations"]["list"][0]["expr"].split())]


# -- a line for each decision ------------------------------------------------------------------------------------------


class NoJournal:
    def write(self, entries: Sequence[Entry] = (), **_: Any) -> None:
        pass


def lines(*decisions: Decision) -> list[dict[str, Any]]:
    out = io.StringIO()
    set_up_logs(out, cluster="main", part="tune")
    limits = ThrottleLimits(50.0 * MB)
    recorder = ThrottleRecorder(NoJournal(), Memory(), limits, Clock(lambda: 1.7e9, lambda: 0.0), dry_run=False)
    recorder.log_decisions(decisions)
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("decision", "of_whom"),
    [
        (SetRate(1, Side.LEADER, 1, 2, Reason.STALLED_THROTTLE_BOUND, "said"), {"broker": 1, "side": "leader"}),
        (ClearLists("orders", (Side.LEADER,), Reason.STALLED_THROTTLE_BOUND, "said"), {"topic": "orders"}),
        (Hold(None, None, Reason.STALLED_THROTTLE_BOUND, "said"), {}),
    ],
)
def test_decision_is_one_log_line_with_all_fields(decision: Decision, of_whom: Mapping[str, Any]) -> None:
    (line,) = lines(decision)
    assert line.pop("at").endswith("Z")
    assert line.pop("action") in {"set", "clear_lists", "hold"}
    assert line == {
        "cluster": "main", "part": "tune", "level": "info", "event": "said", "reason": "stalled_throttle_bound",
        "dry_run": False, **of_whom,
    }  # fmt: skip


def test_every_key_of_decision_line_is_documented() -> None:
    out = io.StringIO()
    set_up_logs(out, cluster="main", part="tune")
    recorder = MutationQuotaRecorder(
        NoJournal(), "main", MutationMemory(), Clock(lambda: 1.7e9, lambda: 0.0), dry_run=True
    )
    recorder.record((TotalRateReport(10.0, 0.8, QuotaReason.AT_CAP, "at the cap"),), (), MutationMemory(), {})
    (line,) = [json.loads(text) for text in out.getvalue().splitlines()]
    (other,) = lines(SetRate(1, Side.LEADER, 1, 2, Reason.STALLED_THROTTLE_BOUND, "said"))
    (several,) = lines(
        ClearLists("orders", (Side.LEADER,), Reason.MOVE_ENDED, "said"),
        *(RestoreRate(broker, Side.LEADER, 1, None, Reason.MOVE_ENDED, "said") for broker in (1, 2)),
    )
    for key in {*line, *other, *several}:
        assert f"`{key}`" in DOC, key


def test_terminal_lines_omit_the_cluster() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    set_up_logs(out, cluster="main", part="tune")
    ThrottleRecorder(
        NoJournal(), Memory(), ThrottleLimits(1e8), Clock(lambda: 0.0, lambda: 0.0), dry_run=False
    ).log_decisions([Hold(None, None, Reason.WATCHING, "said")])
    assert "said" in out.getvalue()
    assert "cluster" not in out.getvalue()
