"""A stand-in for Cruise Control: it answers ``state`` and ``admin`` in the form of its published REST API, and moves nothing."""

from __future__ import annotations

import json
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MOVING = "INTER_BROKER_REPLICA_MOVEMENT_TASK_IN_PROGRESS"


class CruiseControlStandIn:
    """
    Attributes:
        state: the executor's state.
        movements: partitions per broker at a time, as the state reports it.
        is_reviewed: with two-step verification ``admin`` only adds the request to the review board.
        changes: the numbers that ``admin`` was asked for.
    """

    def __init__(self, state: str = MOVING, movements: int = 5) -> None:
        self.state, self.movements = state, movements
        self.is_reviewed = False
        self.status = 200
        self.changes: list[int] = []
        self.logins: list[str | None] = []
        self.url = ""

    @contextmanager
    def serving(self) -> Iterator[CruiseControlStandIn]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer._handle(self, "state")

            def do_POST(self) -> None:
                outer._handle(self, "admin")

            def log_message(self, *args: Any) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads = True
            self.url = f"http://127.0.0.1:{server.server_port}/kafkacruisecontrol"
            thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join(timeout=10)

    def _handle(self, request: BaseHTTPRequestHandler, endpoint: str) -> None:
        self.logins.append(request.headers.get("authorization"))
        parts = urllib.parse.urlsplit(request.path)
        query = urllib.parse.parse_qs(parts.query)
        if parts.path != f"/kafkacruisecontrol/{endpoint}" or query.get("json") != ["true"]:
            self._answer(request, 404, {"errorMessage": "Unrecognized endpoint", "version": 1})
        elif self.status != 200:
            self._answer(request, self.status, {"errorMessage": "an error", "version": 1})
        elif endpoint == "state":
            self._answer(request, 200, {"ExecutorState": self._executor(), "version": 1})
        else:
            self._answer(request, 200, self._change(int(query["concurrent_partition_movements_per_broker"][0])))

    def _change(self, movements: int) -> dict[str, Any]:
        self.changes.append(movements)
        if self.is_reviewed:
            return {"requestInfo": [{"Id": 0, "Status": "PENDING_REVIEW"}], "version": 1}
        self.movements = movements
        text = f"Inter-broker partition movement concurrency is set to {movements}\n"
        return {"ongoingConcurrencyChangeRequest": text, "version": 1}

    def _executor(self) -> dict[str, Any]:
        if self.state == "NO_TASK_IN_PROGRESS":
            return {"state": self.state}
        task = {"triggeredUserTaskId": "task-1", "triggeredSelfHealingTaskId": "", "triggeredTaskReason": "a test"}
        if self.state != MOVING:
            return {"state": self.state, **task}
        return {
            "state": self.state,
            **task,
            "maximumConcurrentPartitionMovementsPerBroker": self.movements,
            "minimumConcurrentPartitionMovementsPerBroker": self.movements,
            "averageConcurrentPartitionMovementsPerBroker": float(self.movements),
            "numInProgressPartitionMovements": 3,
            "numPendingPartitionMovements": 20,
            "numFinishedPartitionMovements": 1,
            "numTotalPartitionMovements": 24,
            "abortingPartitions": 0,
            "finishedDataMovement": 10,
            "totalDataToMove": 100,
        }

    @staticmethod
    def _answer(request: BaseHTTPRequestHandler, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        request.send_response(status)
        request.send_header("content-type", "application/json")
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)
