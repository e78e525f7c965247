"""The preview of a plan as a part of the page, and the order that starts it: roles, refusals, hostile names, sizes."""

from __future__ import annotations

from typing import Any

import pytest
from api_rig import OPERATE_TOKEN, READ_TOKEN, GivenPlans, Rig
from tuner_cases import NOW_MS

from tuner.api.limits import PLAN_BYTES_MAX
from tuner.api.plan_routes import ROWS_MAX
from tuner.api.plan_service import PlanRefused, PlanToStart


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.cycle()
    return made


@pytest.fixture
def service(rig: Rig) -> GivenPlans:
    return rig.plan_service


def previewed(rig: Rig, who: str | None = READ_TOKEN, **body: Any) -> Any:
    return rig.post("/page/plan-preview", {"plan": "{}", **body}, who)


def test_preview_shows_placement_time_and_load(rig: Rig, service: GivenPlans) -> None:
    answer = previewed(rig, start_ms=NOW_MS)
    assert answer.status_code == 200
    assert service.requests == [(PlanToStart("{}", NOW_MS), None)]
    text = answer.text
    assert "<img" not in text
    assert "&lt;img src=x&gt;" in text
    assert "<td><del>1</del>, 2</td>" in text
    assert "<td><ins>3</ins>, 2</td>" in text
    assert "4 → 5" in text
    assert "90.0 MB" in text
    assert "<td>never</td>" in text
    assert "and an end that is not known" in text
    assert f"The first {ROWS_MAX} of {ROWS_MAX + 5} partitions." in text
    assert "As <code>fast</code> as it may." in text
    assert 'data-order="plan" data-words="It moves 205 partitions." data-command="rheostat x"' in text


def test_preview_of_a_forbidden_plan_has_no_button(rig: Rig, service: GivenPlans) -> None:
    service.refusals = ("broker 3 is full",)
    text = previewed(rig).text
    assert "This plan would be refused: broker 3 is full." in text
    assert "data-order" not in text


def test_refused_preview_says_why_in_its_place(rig: Rig, service: GivenPlans) -> None:
    service.refusal = PlanRefused("the plan: line 1: expected an object")
    assert '<p class="wrong" role="alert">The plan: line 1: expected an object.</p>' in previewed(rig).text


@pytest.mark.parametrize(("who", "status"), [(None, 401), (READ_TOKEN, 403), (OPERATE_TOKEN, 202)])
def test_start_of_a_plan_needs_the_role_operate(rig: Rig, service: GivenPlans, who: str | None, status: int) -> None:
    answer = rig.post("/api/v1/plans", {"plan": "{}", "at_best": True}, who)
    assert answer.status_code == status
    assert len(service.requests) == (status == 202)


def test_started_plan_is_recorded_for_its_author(rig: Rig, service: GivenPlans) -> None:
    receipt = rig.post("/api/v1/plans", {"plan": "{}", "start_ms": NOW_MS}).json()
    assert receipt == {
        "plan": "p-1", "not_before_ms": NOW_MS, "text": "Plan p-1 is on record.", "by": "kim over HTTP from testclient",
    }  # fmt: skip
    assert service.requests[0][1] == "kim over HTTP from testclient"


def test_preview_needs_a_token(rig: Rig, service: GivenPlans) -> None:
    assert previewed(rig, None).status_code == 401
    assert service.requests == []


def test_refused_start_has_its_status_and_text(rig: Rig, service: GivenPlans) -> None:
    service.refusal = PlanRefused("the cluster does not answer", 503)
    answer = rig.post("/api/v1/plans", {"plan": "{}"})
    assert (answer.status_code, answer.json()["detail"]) == (503, "the cluster does not answer")


def test_standby_starts_no_plan(rig: Rig, service: GivenPlans) -> None:
    rig.board.become_standby()
    answer = rig.post("/api/v1/plans", {"plan": "{}"})
    assert answer.status_code == 409
    assert "start the plan on the status page of the active tuner" in answer.json()["detail"]
    assert service.requests == []


def test_tuner_without_plan_service_names_the_command() -> None:
    rig = Rig(plans=False)
    rig.cycle()
    assert "use <code>rheostat reassign start PLAN.json</code>" in previewed(rig).text
    assert rig.post("/api/v1/plans", {"plan": "{}"}).status_code == 409


def test_large_plan_is_taken_and_a_huge_one_refused(rig: Rig, service: GivenPlans) -> None:
    assert previewed(rig, plan=" " * 1_000_000).status_code == 200
    assert previewed(rig, plan=" " * (PLAN_BYTES_MAX + 1)).status_code == 413
    assert len(service.requests) == 1


@pytest.mark.parametrize("body", [{}, {"plan": 1}, {"plan": "{}", "start_ms": -1}, {"plan": "{}", "more": 1}])
def test_faulty_plan_request_is_refused(rig: Rig, service: GivenPlans, body: dict[str, Any]) -> None:
    assert rig.post("/page/plan-preview", body, READ_TOKEN).status_code == 422
    assert rig.post("/api/v1/plans", body).status_code == 422
    assert service.requests == []
