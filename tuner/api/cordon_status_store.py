"""The cordons at the newest reading, for the API. The loop writes, the server reads."""

from __future__ import annotations

import threading
from typing import Any

from tuner.api.cordon_views import cordon_rows
from tuner.control.cordon.model import CordonStep


class CordonStatusStore:
    """Holds the result of the newest cycle. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._step: CordonStep | None = None

    def publish(self, step: CordonStep) -> None:
        with self._lock:
            self._step = step

    def clear(self) -> None:
        """Drops the result, because this tuner has become a standby."""
        with self._lock:
            self._step = None

    def as_json(self) -> list[dict[str, Any]]:
        """Returns a row for each broker with cordoned log directories, as JSON values."""
        with self._lock:
            step = self._step
        return [] if step is None else cordon_rows(step.brokers, step.memory)
