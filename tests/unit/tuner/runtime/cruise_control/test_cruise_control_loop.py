"""The controller against a stand-in of Cruise Control's REST API: read, set, read back, and every bad answer."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from cruise_control_kit import MOVING, CruiseControlStandIn
from external_kit import ExternalService
from tuner_cases import NOW_MS, SOURCE, TARGET, live, observation

from tuner.api.cruise_control_status_store import CruiseControlCollector, CruiseControlStatusStore
from tuner.control.cruise_control.policy import Execution
from tuner.core.operator_orders import Orders
from tuner.core.throttle_limits import MB
from tuner.core.throttle_state import ThrottleState
from tuner.journal.entries import Entry, decode_entry, encode_entry
from tuner.journal.input_log import InputLog
from tuner.journal.kafka_journal import JournalError
from tuner.runtime.clock import Clock
from tuner.runtime.cruise_control.client import CruiseControlClient, parse_execution
from tuner.runtime.cruise_control.loop import CruiseControlController, CruiseControlPorts
from tuner.runtime.external.http_client import FailureKind, NoAnswer
from tuner.settings.cruise_control import CruiseControlSettings

T = TypeVar("T")


class AtOnce:
    def start(self, call: Callable[[], T], /) -> Future[T]:
        answer: Future[T] = Future()
        try:
            answer.set_result(call())
        except NoAnswer as error:
            answer.set_exception(error)
        return answer


class Rig:
    def __init__(
        self,
        service: CruiseControlStandIn,
        *,
        dry_run: bool = False,
        inputs: InputLog | None = None,
        **settings: Any,
    ) -> None:
        self.entries: list[Entry] = []
        self.rate = 25.0 * MB
        self.now_s = 0.0
        self.refusal: str | None = None
        self.refuses_records = False
        self.status = CruiseControlStatusStore("lab")
        body = {"url": service.url, "concurrency": "act", **settings}
        parsed = CruiseControlSettings.model_validate(body)
        ports = CruiseControlPorts(
            api=CruiseControlClient(parsed),
            caller=AtOnce(),
            latest=lambda: observation(live()),
            throttle_state=lambda: ThrottleState({SOURCE: self.rate, TARGET: 2 * self.rate}),
            orders=Orders,
            vetoes=tuple,
            journal=self.write,
            write_refusal=lambda: self.refusal,
            observer=self.status,
            inputs=inputs,
        )
        clock = Clock(lambda: NOW_MS / 1000 + self.now_s, lambda: self.now_s)
        self.loop = CruiseControlController(ports, parsed.limits(3600), clock, interval_s=10, dry_run=dry_run)

    def write(self, entries: list[Entry]) -> None:
        if self.refuses_records:
            raise JournalError("no leader")
        self.entries += [decode_entry(encode_entry(entry)) for entry in entries]

    def cycle(self) -> None:
        self.now_s = max(self.now_s + 10, self.loop.next_due_s())
        for _ in range(4):  # Ask, decide, change, finish.
            self.loop.tick()

    def kinds(self) -> list[tuple[str, str]]:
        return [(entry.kind, entry.reason) for entry in self.entries]


@pytest.fixture
def service() -> Iterator[CruiseControlStandIn]:
    with CruiseControlStandIn().serving() as running:
        yield running


def test_number_follows_the_throttle_and_is_journaled_first(service: CruiseControlStandIn) -> None:
    rig = Rig(service)
    rig.cycle()
    assert service.changes == [2]
    assert rig.kinds() == [("intent", "follows_throttle"), ("outcome", "follows_throttle")]
    assert rig.entries[0].inputs == {"state": MOVING, "movements_per_broker": 5, "rate_bytes_per_s": 25 * MB}
    assert rig.entries[1].failure is None
    rig.cycle()
    assert service.changes == [2], "only a difference is set"
    rig.rate = 40.0 * MB
    rig.cycle()
    assert service.changes == [2, 4]


def test_number_of_another_tool_is_left_alone(service: CruiseControlStandIn) -> None:
    rig = Rig(service)
    rig.cycle()
    service.movements = 7
    rig.cycle()
    rig.cycle()
    assert (service.changes, service.movements) == ([2], 7)
    assert rig.kinds()[-1] == ("decision", "adjusted_by_tool")


def test_dry_run_and_watch_request_nothing(service: CruiseControlStandIn) -> None:
    for rig in (Rig(service, dry_run=True), Rig(service, concurrency="watch")):
        rig.cycle()
        rig.cycle()
        assert len(rig.entries) == 1
    assert service.changes == []


def test_nothing_is_set_without_journal_or_leadership(service: CruiseControlStandIn) -> None:
    for name, value in (("refuses_records", True), ("refusal", "leadership is not certain")):
        rig = Rig(service)
        setattr(rig, name, value)
        rig.cycle()
        assert rig.entries == []
    assert service.changes == []


def test_change_that_waits_for_a_review_is_a_failure(service: CruiseControlStandIn) -> None:
    service.is_reviewed = True
    rig = Rig(service)
    rig.cycle()
    assert rig.entries[-1].failure == "Cruise Control still has 5 partitions per broker"


def test_failed_change_is_repeated_with_growing_pauses(service: CruiseControlStandIn) -> None:
    """Otherwise each cycle would add a request that waits for a review, and two records to the journal."""
    service.is_reviewed = True
    rig = Rig(service)
    for _ in range(60):  # Ten minutes.
        rig.cycle()
    assert 4 < len(rig.entries) < 20
    service.is_reviewed = False
    rig.now_s += 300
    rig.cycle()
    assert (service.changes[-1], rig.entries[-1].failure) == (2, None)


def test_number_that_was_set_without_an_answer_is_its_own(service: CruiseControlStandIn) -> None:
    rig = Rig(service)
    set_movements = rig.loop._ports.api.set_movements

    def lose_answer(movements: int) -> Execution:
        set_movements(movements)
        raise NoAnswer(FailureKind.TIMEOUT, "it did not answer")

    rig.loop._ports.api.set_movements = lose_answer  # type: ignore[method-assign]
    rig.cycle()
    assert rig.entries[-1].failure == "it did not answer"
    rig.loop._ports.api.set_movements = set_movements  # type: ignore[method-assign]
    rig.rate = 40.0 * MB
    rig.cycle()
    assert service.changes == [2, 4]


def test_metrics_show_answers_number_and_decisions(service: CruiseControlStandIn) -> None:
    rig = Rig(service)

    def samples() -> dict[str, float]:
        families = CruiseControlCollector(rig.status).collect()
        return {sample.name: sample.value for family in families for sample in family.samples}

    assert samples() == {}
    rig.cycle()
    assert samples()["rheostat_cruise_control_answers"] == 1
    assert samples()["rheostat_cruise_control_movements_per_broker"] == 5
    service.status = 500
    rig.cycle()
    assert samples()["rheostat_cruise_control_answers"] == 0
    assert rig.kinds()[-1][0] == "outcome"
    rig.status.clear()
    assert "rheostat_cruise_control_answers" not in samples()


def test_login_is_sent_as_basic_credentials(service: CruiseControlStandIn, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("pass:word\n")
    Rig(service, user="kim", password_file=str(file)).cycle()
    expected = f"Basic {base64.b64encode(b'kim:pass:word').decode()}"
    assert set(service.logins) == {expected}


@pytest.mark.parametrize("mode", ["hang", "redirect", "endless"])
def test_bad_service_is_named_and_changes_nothing(mode: str) -> None:
    with ExternalService(mode=mode).serving() as bad:
        stand_in = CruiseControlStandIn()
        stand_in.url = bad.url
        rig = Rig(stand_in, timeout_s=2 if mode == "endless" else 0.2)
        rig.cycle()
    assert rig.entries == []
    assert rig.status.snapshot()[2] == {("hold_movements", "no_answer"): 1}


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<html>", FailureKind.NOT_JSON),
        (b"[" * 100_000, FailureKind.NOT_JSON),
        (b"[]", FailureKind.NO_VALUE),
        (b'{"ExecutorState": {"state": 3}}', FailureKind.NO_VALUE),
        (json.dumps({"ExecutorState": {"state": MOVING}}).encode(), FailureKind.NO_VALUE),
        (
            json.dumps(
                {"ExecutorState": {"state": MOVING, "maximumConcurrentPartitionMovementsPerBroker": -1}}
            ).encode(),
            FailureKind.NO_VALUE,
        ),
    ],
)
def test_state_that_is_not_valid_is_refused(body: bytes, kind: FailureKind) -> None:
    with pytest.raises(NoAnswer) as caught:
        parse_execution(body)
    assert caught.value.kind is kind


def test_state_of_an_older_cruise_control_has_no_minimum() -> None:
    executor = {
        "state": MOVING,
        "triggeredUserTaskId": "a\x1bb",
        "maximumConcurrentPartitionMovementsPerBroker": 4,
        "numInProgressPartitionMovements": 2,
    }
    execution = parse_execution(json.dumps({"ExecutorState": executor}).encode())
    assert replace(execution, pending=0) == Execution(MOVING, "a b", None, 4, in_progress=2)
