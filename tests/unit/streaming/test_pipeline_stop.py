from __future__ import annotations

from streaming.pipeline import stop_workers


class HangingWorker:
    """Never ends; notes its calls in a common list."""

    def __init__(self, calls: list[str], waits_s: list[float]) -> None:
        self.calls, self.waits_s = calls, waits_s

    def cancel(self) -> None:
        self.calls.append("cancel")

    def join(self, timeout_s: float) -> None:
        self.calls.append("join")
        self.waits_s.append(timeout_s)


def test_workers_are_cancelled_together_and_share_the_wait() -> None:
    calls: list[str] = []
    waits_s: list[float] = []
    stop_workers([HangingWorker(calls, waits_s), HangingWorker(calls, waits_s)], 5.0)
    assert calls == ["cancel", "cancel", "join", "join"]
    assert waits_s[1] < waits_s[0] <= 5.0
