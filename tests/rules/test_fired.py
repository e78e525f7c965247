"""For each alert the test in which it fires on real parts: brokers, rheostat's processes, Prometheus and Alertmanager."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
STALLED = "integration/test_alerts_live.py::test_a_stalled_move_calls_a_person_and_its_rescue_ends_the_call"
PLAN = "integration/test_alerts_live.py::test_a_plan_that_waits_for_a_broker_calls_a_person_and_goes_on_when_it_is_back"
LOAD = "integration/test_alerts_live_load.py"
NO_ROOM = f"{LOAD}::test_clients_that_leave_no_room_are_slower_than_anybody_promised"
SLOW = f"{LOAD}::test_a_slow_destination_and_a_tuner_that_may_not_write"
RIGHTS = "integration/test_alerts_live_rights.py::test_a_tuner_that_may_not_see_what_a_plan_moves_calls_a_person"
STORM = f"{LOAD}::test_a_storm_that_nothing_holds_back_enough"

FIRED = {
    "ReassignmentStalled": STALLED,
    "ReassignmentPlanStuck": PLAN,
    "ReassignmentPlansNotExecuted": RIGHTS,
    "ThrottleSaturatedBySourceOrDisk": SLOW,
    "ThrottleInfeasible": STALLED,
    "ThrottleWithoutHeadroom": NO_ROOM,
    "ClientLatencyOverObjective": NO_ROOM,
    "UnderMinIsrDuringMove": STALLED,
    "RecoveryDuringMove": STALLED,
    "ThrottleLeftBehind": STALLED,
    "ControllerUnderPressure": STORM,
    "TenantQuotaExhausted": STORM,
    "PartitionLimitNear": STALLED,
    "FetcherCollision": STALLED,
    "SignalsStale": STALLED,
    "PipelineLagging": STALLED,
    "RejectsRising": STALLED,
    "TunerNotLeading": STALLED,
    "TunerActuationFailing": SLOW,
    "ConfigReloadFailed": STALLED,
    "OperatorOverrideInForce": STALLED,
}


def test_every_alert_is_in_the_table_and_nothing_else() -> None:
    files = sorted((ROOT / "dashboards" / "rules").glob("*.yaml"))
    groups = [group for file in files for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]]
    assert {rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule} == FIRED.keys()


@pytest.mark.parametrize(("alert", "where"), FIRED.items())
def test_the_test_is_there_and_speaks_of_the_alert(alert: str, where: str) -> None:
    file, _, name = where.partition("::")
    text = (ROOT / "tests" / file).read_text(encoding="utf-8")
    assert f"def {name}(" in text
    assert f'"{alert}"' in text
