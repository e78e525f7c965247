"""Reads the executor's state of Cruise Control, and sets its concurrency, over its REST API.

GET  <url>/state?substates=executor&json=true
POST <url>/admin?concurrent_partition_movements_per_broker=N&json=true
"""

from __future__ import annotations

import base64
import json
import urllib.request
from typing import Any

from streaming.shared.foreign_text import printable_start
from streaming.shared.kafka.secrets import LoginError, SecretFile
from tuner.control.cruise_control.policy import Execution
from tuner.runtime.external.http_client import FailureKind, NoAnswer, send
from tuner.settings.cruise_control import CruiseControlSettings

_STATE = "state?substates=executor&json=true"
_ADMIN = "admin?json=true&concurrent_partition_movements_per_broker="
_MOVES_REPLICAS = "INTER_BROKER_REPLICA_MOVEMENT_TASK_IN_PROGRESS"
_TEXT_CHARS_MAX = 100


class CruiseControlClient:
    """Sends requests to Cruise Control. Each request may take up to ``timeout_s``."""

    def __init__(self, settings: CruiseControlSettings) -> None:
        self._settings = settings

    def read_execution(self) -> Execution:
        """Returns the execution that Cruise Control runs now.

        Raises:
            NoAnswer: there is no valid answer.
        """
        return parse_execution(self._send(_STATE, "GET"))

    def set_movements(self, movements: int) -> Execution:
        """Sets the number of partitions per broker for the execution in progress. Returns the state that is read afterwards.

        Raises:
            NoAnswer: there is no valid answer. Cruise Control may have set the number nevertheless.
        """
        self._send(f"{_ADMIN}{movements}", "POST")
        return self.read_execution()

    def _send(self, path: str, method: str) -> bytes:
        request = urllib.request.Request(f"{self._settings.url.rstrip('/')}/{path}", method=method)
        request.add_header("Accept", "application/json")
        if self._settings.user is not None and self._settings.password_file is not None:
            request.add_unredirected_header("Authorization", _basic(self._settings.user, self._settings.password_file))
        return send(request, self._settings.cafile, self._settings.timeout_s)


def parse_execution(body: bytes) -> Execution:
    """Returns the execution of a state in JSON.

    Raises:
        NoAnswer: the body is not the state of an executor.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NoAnswer(FailureKind.NOT_JSON, "its answer is not JSON") from error
    executor = document.get("ExecutorState") if isinstance(document, dict) else None
    if not isinstance(executor, dict) or not isinstance(executor.get("state"), str):
        raise NoAnswer(FailureKind.NO_VALUE, "its answer has no ExecutorState with a state")
    state = printable_start(executor["state"], _TEXT_CHARS_MAX)
    task_id = executor.get("triggeredUserTaskId") or executor.get("triggeredSelfHealingTaskId") or ""
    task = printable_start(str(task_id), _TEXT_CHARS_MAX)
    if state != _MOVES_REPLICAS:
        return Execution(state, task)
    highest = _count(executor, "maximumConcurrentPartitionMovementsPerBroker")
    if highest is None:
        raise NoAnswer(FailureKind.NO_VALUE, "its state has no maximumConcurrentPartitionMovementsPerBroker")
    return Execution(
        state,
        task,
        movements_min=_count(executor, "minimumConcurrentPartitionMovementsPerBroker"),
        movements_max=highest,
        in_progress=_count(executor, "numInProgressPartitionMovements") or 0,
        pending=_count(executor, "numPendingPartitionMovements") or 0,
        finished=_count(executor, "numFinishedPartitionMovements") or 0,
    )


def _count(executor: dict[str, Any], key: str) -> int | None:
    number = executor.get(key)
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 1 << 31 else None


def _basic(user: str, password_file: str) -> str:
    try:
        password = SecretFile("password_file", password_file, "tuner.cruise_control").read()
    except LoginError as error:
        raise NoAnswer(FailureKind.SECRET, str(error)) from error
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
