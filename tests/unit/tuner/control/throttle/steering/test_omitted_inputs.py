"""Every input that a decision may depend on is recorded: no decision reads the inputs that are left out."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path

import pytest

import tuner.control
from streaming.shared.contract import BrokerSignal, ControllerSignal, MoveSignal, TenantSignal
from tuner.control.mutation_quota.model import QuotaView
from tuner.control.throttle.steering.state import ControlInput
from tuner.core.cluster import Observation
from tuner.journal.type_codec import OMITTED_FIELDS

CONTROL = Path(tuner.control.__file__).parent
CORE = CONTROL.parent / "core"
# storm.py only reports a storm, for the page and the alert; no quota depends on it, and it is not replayed.
QUOTAS = [path for path in sorted((CONTROL / "mutation_quota").glob("*.py")) if path.name != "storm.py"]
QUOTAS += [CORE / "controller_pressure.py"]
# Not checked: modules for moves that the executor prepares, as the executor's inputs are not recorded, and modules that read no
# signals but plans of fetcher threads.
ELSE = {"prepared_moves.py", "capacity.py", "fetcher_load.py", "fetcher_choice.py"}
THROTTLES = [path for path in sorted((CONTROL / "throttle").rglob("*.py")) if path.name not in ELSE]
THROTTLES += [CORE / "freshness.py"]


def read_by(paths: Iterable[Path]) -> set[str]:
    nodes = (node for path in paths for node in ast.walk(ast.parse(path.read_text())))
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)}


@pytest.mark.parametrize(
    ("paths", "signals", "found"),
    [
        (THROTTLES, (BrokerSignal, MoveSignal), "network_in_bytes_per_s"),
        (QUOTAS, (ControllerSignal, TenantSignal), "mutation_rate_per_s"),
    ],
    ids=["throttles", "mutation quotas"],
)
def test_decisions_read_no_omitted_input(paths: Sequence[Path], signals: tuple[type, ...], found: str) -> None:
    """Throttle decisions read signals of brokers and moves, mutation quota decisions those of controllers and tenants."""
    read = read_by(paths)
    assert found in read, "the search above finds nothing"
    left_out = {name for signal in signals for name in OMITTED_FIELDS[signal]}
    assert read & left_out == set(), "remove them from OMITTED_FIELDS: inputs of decisions must be recorded"


def test_every_other_input_is_recorded() -> None:
    assert set(OMITTED_FIELDS) == {BrokerSignal, MoveSignal, ControllerSignal, TenantSignal}


def test_all_observed_fields_are_recorded() -> None:
    """New fields of the state and of the cluster are recorded automatically, but new fields of these three classes are not."""
    told = "add new fields to journal/input_capture.py, journal/codec.py and replay/replayer.py"
    seen = {
        "now_ms",
        "live",
        "broker_signals",
        "move_signals",
        "ramping",
        "setpoints",
        "orders",
        "empty_windows",
        "plan_moves",
        "vetoes",
        "eta_ratios",
        "deadline_forecasts",
    }
    # Only the search for the cause of a replication lag and the status read them, and no throttle decision depends on either.
    not_recorded = {"replication_signals", "baselines"}
    assert {f.name for f in fields(Observation)} == seen | not_recorded, told
    asked = {
        "now_ms", "brokers", "moves", "current_rates", "capacities", "stalled_sides", "recovering_sides", "restore_rates",
        "planned_sides", "plan_max_rates", "at_min_isr_sides", "baselines", "deadline_ratios",
    }  # fmt: skip
    assert {f.name for f in fields(ControlInput)} == asked, told
    looked = {"now_ms", "quotas", "controllers", "tenants", "cluster_wide"}
    assert {f.name for f in fields(QuotaView)} == looked, told
