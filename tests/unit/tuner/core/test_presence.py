"""The presence that a tuner reports, and which tuners count as running."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.structs import OffsetAndTimestamp
from structlog.testing import capture_logs

from rheostat import tuner_presence
from rheostat.tuner_presence import active_tuner, running_tuners
from tuner.api.status_store import StatusStore
from tuner.core.presence import ALIVE_S_MAX, TunerMode, TunerPresence
from tuner.journal.presence_records import decode_presence, encode_presence, presence_key, presence_prefix
from tuner.runtime import presence as module
from tuner.runtime.clock import Clock
from tuner.runtime.presence import PresenceReporter, current_presence
from tuner.settings.tuner import TunerSettings

NOW_MS = 1_000_000
ACTIVE = TunerPresence("a:1", TunerMode.ACTIVE, 5, "0.1", 50e6, 5e6, "fast", 50.0, "throttle", reported_at_ms=NOW_MS)


def test_presence_record_encoded_and_decoded_is_equal() -> None:
    assert decode_presence(encode_presence(ACTIVE), NOW_MS) == ACTIVE


@pytest.mark.parametrize(
    "value",
    [
        b"", b"\xff", b"[]", b"1", b'{"v": 2}', b'{"v": 1}', b"[" * 100_000,
        encode_presence(ACTIVE).replace(b'"active"', b'"flying"'),
        encode_presence(ACTIVE).replace(b"50000000.0", b'"much"'),
    ],
)  # fmt: skip
def test_malformed_presence_record_is_a_value_error(value: bytes) -> None:
    with pytest.raises(ValueError, match="not a presence record"):
        decode_presence(value, NOW_MS)


def test_running_tuners_drops_silent_ones_and_sorts_active_first() -> None:
    standby = replace(ACTIVE, holder="b:2", mode=TunerMode.STANDBY)
    silent = replace(ACTIVE, holder="c:3", reported_at_ms=NOW_MS - round(ALIVE_S_MAX * 1000) - 1)
    assert running_tuners([standby, silent, ACTIVE], NOW_MS) == (ACTIVE, standby)


class Journal:
    """The journal's topic as ``_read`` sees it: ``written`` stands in it, each poll brings one of ``comes``."""

    def __init__(self, written: list[SimpleNamespace], comes: list[list[SimpleNamespace]]) -> None:
        self._polls = [written, *comes]

    def assign(self, _: object) -> None: ...

    def seek(self, *_: object) -> None: ...

    def end_offsets(self, _: object) -> dict[TopicPartition, int]:
        return {PARTITION: 1}

    def offsets_for_times(self, _: object) -> dict[TopicPartition, OffsetAndTimestamp]:
        return {PARTITION: OffsetAndTimestamp(0, 0, None)}

    def position(self, _: object) -> int:
        return 0 if self._polls and len(self._polls[0]) else 1

    def poll(self, **_: object) -> dict[TopicPartition, list[SimpleNamespace]]:
        return {PARTITION: self._polls.pop(0)} if self._polls else {}


PARTITION = TopicPartition("journal", 0)


def report(at_ms: int, tuner: TunerPresence | None = ACTIVE) -> SimpleNamespace:
    value = encode_presence(tuner) if tuner is not None else None
    return SimpleNamespace(key=presence_key("c", "a:1"), value=value, timestamp=at_ms)


@pytest.mark.parametrize("ahead_s", [0, 17, 60, -17, -3600])
def test_new_report_proves_tuner_alive_despite_clock_offset(ahead_s: int) -> None:
    now_ms = NOW_MS + 1000 * ahead_s
    journal: Any = Journal([report(NOW_MS - 4000)], [[], [report(NOW_MS + 1000)]])
    found = tuner_presence._read(journal, PARTITION, presence_prefix("c"), now_ms)
    assert [tuner.holder for tuner in found] == ["a:1"]


@pytest.mark.parametrize("now_ms", [NOW_MS + 21_000, NOW_MS - 3_600_000])
def test_tuner_with_overdue_report_is_gone(now_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner_presence, "_NEXT_REPORT_S_MAX", 0.01)
    journal: Any = Journal([report(NOW_MS)], [])
    found = tuner_presence._read(journal, PARTITION, presence_prefix("c"), now_ms)
    assert found == ()


def test_later_of_two_acting_reports_wins() -> None:
    killed = replace(ACTIVE, holder="b:2", since_ms=1)
    assert active_tuner([killed, ACTIVE, replace(ACTIVE, mode=TunerMode.STANDBY, since_ms=9)]) == ACTIVE
    assert active_tuner([]) is None
    assert running_tuners([killed, ACTIVE], NOW_MS)[0] == ACTIVE, "a plan is foretold by the limits of the first"


@pytest.mark.parametrize(("dry_run", "mode"), [(True, TunerMode.DRY_RUN), (False, TunerMode.ACTIVE)])
def test_presence_of_board_follows_its_state(dry_run: bool, mode: TunerMode) -> None:
    settings = TunerSettings(rate_bytes_per_s_max=50e6, dry_run=dry_run)
    board = StatusStore("c", settings.limits(), dry_run=dry_run, wall_clock=lambda: 0.0)

    def seen() -> TunerPresence:
        return current_presence(board, settings, holder="a:1", version="0.1", page="", since_ms=5)

    board.become_standby("the cluster cannot be read: timeout")
    assert (seen().mode, seen().waits_for) == (TunerMode.STARTING, "the cluster cannot be read: timeout")
    board.become_standby()
    assert seen().mode is TunerMode.STANDBY
    board.become_active()
    assert (seen().mode, seen().executes_plans) == (mode, not dry_run)
    assert (seen().rate_bytes_per_s_max, seen().objective_mode, seen().unthrottled_moves) == (50e6, "fast", "leave")


class Producer:
    """Takes every record."""

    def __init__(self) -> None:
        self.reported = threading.Event()
        self.values: list[bytes | None] = []

    def send(self, _topic: str, *, key: bytes, value: bytes | None) -> Any:  # noqa: ARG002 - the client's shape
        self.values.append(value)
        self.reported.set()
        answer: Any = SimpleNamespace(add_callback=lambda _: answer, add_errback=lambda _: answer)
        return answer

    def close(self, timeout: float) -> None:
        pass


def test_reporter_goes_on_after_an_error_of_any_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHECK_EVERY_S", 0.01)
    producer = Producer()

    left: list[Any] = [ZeroDivisionError("by zero"), KeyError("holder")]

    def presence() -> TunerPresence:
        if left:
            raise left.pop(0)
        return ACTIVE

    made: Any = producer
    reporter = PresenceReporter(lambda: made, "rheostat.journal", "c", "a:1", presence, Clock(lambda: 5.0, lambda: 0.0))
    with capture_logs() as said:
        reporter.start()
        try:
            assert producer.reported.wait(20), "the thread has ended"
        finally:
            reporter.stop()
    assert [line["error"] for line in said] == ["ZeroDivisionError: by zero"]
    assert producer.values[-1] is None, "it says that the tuner has ended"
