"""The presence that a tuner reports, and which tuners a command takes for alive."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rheostat.tuner_presence import acting_tuner, alive
from tuner.api.board import Board
from tuner.journal.presence_records import decode_presence, encode_presence
from tuner.model.presence import ALIVE_S_MAX, TunerMode, TunerPresence
from tuner.presence import presence_of
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
