"""The parts of the page that read the history topic or the journal: the history of a broker, and one decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fastapi import APIRouter
from jinja2 import Environment
from starlette.responses import Response

from streaming.shared.units import rate_text
from tuner.api.api_state import ApiState
from tuner.api.broker_history_routes import FromMs, ToMs, read_broker_history
from tuner.api.broker_history_views import HistoryRange
from tuner.api.decision_lookup import find_decision
from tuner.api.decision_page import decision_values
from tuner.api.journal_history import MarkKind
from tuner.api.page_shells import DecisionNumber
from tuner.api.parameters import BrokerId

_KINDS = {
    MarkKind.FAIL_OVER: "fail-over",
    MarkKind.RESTART: "restart of the tuner",
    MarkKind.SETTINGS: "other settings",
    MarkKind.ORDER: "order of an operator",
    MarkKind.EXTERNAL_CHANGE: "change of another tool",
    MarkKind.DECISION: "decision",
}
_MEASURES = {
    "client_in_bytes_per_s": "received from clients",
    "client_out_bytes_per_s": "sent to clients",
    "replication_in_bytes_per_s": "replication, received",
    "replication_out_bytes_per_s": "replication, sent",
    "produce_p99_ms": "produce latency (p99)",
    "lag_messages": "replication lag",
}
_UNKNOWN = "–"


class MeasureRow(NamedTuple):
    """One measure of a range, as texts."""

    name: str
    lowest: str
    highest: str
    last: str


def add_history_parts(parts: APIRouter, state: ApiState, templates: Environment) -> None:
    # Plain functions: FastAPI runs them in its thread pool, as they may wait for Kafka.
    @parts.get("/broker/{broker}")
    def broker_history(broker: BrokerId, from_ms: FromMs = None, to_ms: ToMs = None) -> Response:
        def build() -> bytes:
            history = read_broker_history(state, broker, from_ms, to_ms)
            values = {
                "h": history,
                "shown": HistoryRange(history["from_ms"], history["to_ms"]),
                "rows": measure_rows(history),
                "kinds": _KINDS,
            }
            return templates.get_template("broker_history.html").render(**values).encode()

        return state.cached_response(build, "text/html", further_stamp=state.history_stamp)

    @parts.get("/decision/{number}")
    def decision(number: DecisionNumber) -> Response:
        def build() -> bytes:
            found = find_decision(state, number)
            cluster = state.observers.status.cluster if state.has_other_clusters else None
            values = decision_values(found.row, number, cluster, found.reason)
            return templates.get_template("decision.html").render(**values).encode()

        return state.cached_response(build, "text/html", further_stamp=state.decisions_stamp)


def measure_rows(history: dict[str, Any]) -> list[MeasureRow]:
    """Returns the lowest, highest and last value of each measure, and of each throttle."""
    measured = [_row(text, name, history["measured"][name]) for name, text in _MEASURES.items()]
    throttles = [_throttle_row(side, line["bytes_per_s"]) for side, line in history["throttles"].items()]
    ceiling = _row("ceiling", "bytes_per_s", [each["rate_bytes_per_s_max"] for each in history["in_force"]])
    return [*measured, *throttles, ceiling]


def _throttle_row(side: str, rates: Sequence[float | None]) -> MeasureRow:
    row = _row(f"throttle, {side}", "bytes_per_s", rates)
    is_removed = row.last != _UNKNOWN and rates[-1] is None
    return row._replace(last="removed") if is_removed else row


def _row(text: str, name: str, values: Sequence[float | None]) -> MeasureRow:
    known = [value for value in values if value is not None]
    if not known:
        return MeasureRow(text, _UNKNOWN, _UNKNOWN, _UNKNOWN)
    return MeasureRow(text, *(_value(name, value) for value in (min(known), max(known), known[-1])))


def _value(name: str, value: float) -> str:
    if name.endswith("bytes_per_s"):
        return rate_text(value)
    return f"{value:,.0f} messages" if name == "lag_messages" else f"{value:.3g} ms"
