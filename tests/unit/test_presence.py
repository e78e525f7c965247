"""The presence that a tuner reports, and which tuners a command takes for alive."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from rheostat.tuner_presence import acting_tuner, alive
from tuner import presence as module
from tuner.api.board import Board
from tuner.journal.presence_records import decode_presence, encode_presence
from tuner.model.presence import ALIVE_S_MAX, TunerMode, TunerPresence
from tuner.presence import PresenceReporter, presence_of
from tuner.settings import TunerSettings

NOW_MS = 1_000_000
ACTING = TunerPresence("a:1", TunerMode.ACTING, 5, "0.1", 50e6, 5e6, "fast", 50.0, "throttle", reported_at_ms=NOW_MS)


def test_presence_record_encoded_and_decoded_is_equal() -> None:
    assert decode_presence(encode_presence(ACTING), NOW_MS) == ACTING


@pytest.mark.parametrize(
    "value",
    [
        b"", b"\xff", b"[]", b"1", b'{"v": 2}', b'{"v": 1}', b"[" * 100_000,
        encode_presence(ACTING).replace(b'"acting"', b'"flying"'),
        encode_presence(ACTING).replace(b"50000000.0", b'"much"'),
    ],
)  # fmt: skip
def test_presence_record_that_is_none_is_a_value_error(value: bytes) -> None:
    with pytest.raises(ValueError, match="not a presence record"):
        decode_presence(value, NOW_MS)


def test_alive_drops_silent_tuners_and_puts_the_acting_first() -> None:
    standby = replace(ACTING, holder="b:2", mode=TunerMode.STANDBY)
    silent = replace(ACTING, holder="c:3", reported_at_ms=NOW_MS - round(ALIVE_S_MAX * 1000) - 1)
    assert alive([standby, silent, ACTING], NOW_MS) == (ACTING, standby)


def test_acting_tuner_of_two_reports_is_the_later_one() -> None:
    killed = replace(ACTING, holder="b:2", since_ms=1)
    assert acting_tuner([killed, ACTING, replace(ACTING, mode=TunerMode.STANDBY, since_ms=9)]) == ACTING
    assert acting_tuner([]) is None


@pytest.mark.parametrize(("dry_run", "mode"), [(True, TunerMode.DRY_RUN), (False, TunerMode.ACTING)])
def test_presence_of_board_follows_its_state(dry_run: bool, mode: TunerMode) -> None:
    settings = TunerSettings(rate_bytes_per_s_max=50e6, dry_run=dry_run)
    board = Board("c", settings.limits(), dry_run=dry_run, wall_clock=lambda: 0.0)

    def seen() -> TunerPresence:
        return presence_of(board, settings, holder="a:1", version="0.1", page="", since_ms=5)

    board.stands_by("the cluster is not seen: timeout")
    assert (seen().mode, seen().waits_for) == (TunerMode.STARTING, "the cluster is not seen: timeout")
    board.stands_by()
    assert seen().mode is TunerMode.STANDBY
    board.acts()
    assert (seen().mode, seen().executes_plans) == (mode, not dry_run)
    assert (seen().rate_bytes_per_s_max, seen().objective_mode, seen().unthrottled_moves) == (50e6, None, "leave")


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
    monkeypatch.setattr(module, "_LOOK_EVERY_S", 0.01)
    producer = Producer()

    left: list[Any] = [ZeroDivisionError("by zero"), KeyError("holder")]

    def presence() -> TunerPresence:
        if left:
            raise left.pop(0)
        return ACTING

    made: Any = producer
    reporter = PresenceReporter(
        lambda: made, "rheostat.journal", "c", "a:1", presence, wall_clock=lambda: 5.0, monotonic=lambda: 0.0
    )
    with capture_logs() as said:
        reporter.start()
        try:
            assert producer.reported.wait(20), "the thread has ended"
        finally:
            reporter.stop()
    assert [line["error"] for line in said] == ["ZeroDivisionError: by zero"]
    assert producer.values[-1] is None, "it says that the tuner has ended"
