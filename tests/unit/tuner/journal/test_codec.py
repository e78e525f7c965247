"""The encoded difference of two cycles turns the first into the second; large differences are split."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tuner_cases import LIMITS, NOW_MS, STALL, TARGET, F, L, broker_signal, live, move, move_signal, observation

from streaming.shared.contract import MoveStep, TenantSignal
from tuner.control.throttle.decision import Hold, Reason, SetRate
from tuner.control.throttle.state import Memory
from tuner.core.cluster import Observation, RateSetting
from tuner.core.throttle_limits import MB
from tuner.journal import codec
from tuner.journal.codec import Piece, apply_piece, decode_piece, diff_field, encode_piece, whole_field
from tuner.journal.column_packing import unpack_column
from tuner.journal.decision_digest import ROWS_MAX, digest_decisions
from tuner.journal.delta_stream import FRAME_EVERY_S
from tuner.journal.input_log import InputLog
from tuner.journal.settings_snapshot import SettingsSnapshot
from tuner.replay.recording import MissedSteps, RecordedStep, decode_chunk, recorded_steps

POOL = [move("orders", p) for p in range(12)]
MOVES = st.lists(st.sampled_from(POOL), unique_by=id).map(tuple)


def read(pieces: Sequence[Piece]) -> list[Piece]:
    found = [decode_piece(json.loads(json.dumps(encode_piece(piece)))) for piece in pieces]
    return [piece for piece in found if piece is not None]


def made_of(member: str, before: Any, value: Any) -> Any:
    known = {member: before}
    for piece in read(list(diff_field(member, before, value))):
        apply_piece(known, piece)
    return known[member]


@given(MOVES, MOVES)
def test_diff_field_moves_restores_their_order(before: tuple[Any, ...], value: tuple[Any, ...]) -> None:
    assert made_of("live.moves", before, value) == value


def test_diff_field_moves_writes_only_changes() -> None:
    before = tuple(move("orders", p) for p in range(3000))
    other = replace(before[700], isr=(1,))
    value = (*before[5:700], other, *before[701:1500], *before[1503:], move("new", 1))
    pieces = list(diff_field("live.moves", before, value))
    assert [piece.op for piece in pieces] == ["remove_at", "insert_at"]
    assert pieces[0].value == (0, 1, 2, 3, 4, 700, 1500, 1501, 1502)
    assert [row for _, row in pieces[1].value] == [other, move("new", 1)]
    assert made_of("live.moves", before, value) == value


RATES = st.dictionaries(
    st.tuples(st.integers(0, 5), st.sampled_from([L, F])), st.builds(RateSetting, st.integers(0, 3))
)


@given(RATES, RATES)
def test_diff_field_mapping_restores_all_changes(before: Any, value: Any) -> None:
    assert made_of("live.rates", before, value) == value


STEPS = st.lists(st.builds(MoveStep, st.integers(1, 3), *[st.sampled_from([0.0, 0.1])] * 4), max_size=4).map(tuple)


@given(STEPS, STEPS)
def test_diff_field_move_signals_restores_shared_and_new_steps(before: Any, value: Any) -> None:
    old = {
        TARGET: replace(
            move_signal(*TARGET, steps=before), cluster="", window_end_ms=0, remaining_slope_bytes_per_s=None
        )
    }
    new = {TARGET: replace(old[TARGET], steps=value)}
    assert made_of("signals.moves", old, new) == new


def test_diff_field_move_signals_writes_only_the_new_step() -> None:
    steps = tuple(MoveStep(NOW_MS + 5000 * i, 5.0, 1.0, 2.0, 3.0) for i in range(6))
    old, new = ({TARGET: move_signal(*TARGET, steps=s)} for s in (steps[:5], steps[1:]))
    [piece] = diff_field("signals.moves", old, new)
    assert piece.op == "slide"
    kept, more, _ = piece.value[TARGET]
    assert (kept, more) == (4, steps[5:])
    assert json.dumps(encode_piece(piece)).count('"gained_bytes"') == 1


def spoken(books: tuple[int, str | None, str | None], at_ms: int) -> TenantSignal:
    node, user, client_id = books
    return TenantSignal(
        "", node, 0, at_ms, 1, 1.0, user=user, client_id=client_id, mutation_rate_per_s=at_ms / 7, tokens=-1.0
    )


@given(st.permutations([(n, u, c) for n in (1, 2) for u in ("a", None) for c in ("x", "<default>")]), st.data())
def test_diff_field_tenants_restores_signals_and_order(whose: list[Any], data: Any) -> None:
    before = {books: spoken(books, 1) for books in whose[: data.draw(st.integers(0, 8))]}
    new = data.draw(st.permutations(whose))[: data.draw(st.integers(0, 8))]
    same = data.draw(st.sets(st.sampled_from(whose)))
    value = {books: before[books] if books in before and books in same else spoken(books, 2) for books in new}
    made = made_of("signals.tenants", before, value)
    assert made == value
    assert list(made) == list(value)


def test_diff_field_known_tenants_are_written_without_names() -> None:
    before = {(1, f"team-{i}", None): spoken((1, f"team-{i}", None), 1) for i in range(50)}
    left = list(before)[3:]
    value = {**{books: spoken(books, 2) for books in left[:20]}, **{books: before[books] for books in left[20:]}}
    value[(1, "new", None)] = spoken((1, "new", None), 2)
    pieces = list(diff_field("signals.tenants", before, value))
    assert [(piece.op, len(piece.value)) for piece in pieces] == [("delete", 3), ("update_tenants", 20), ("put", 1)]
    assert "team" not in json.dumps(encode_piece(pieces[1]))
    made = made_of("signals.tenants", before, value)
    assert (made, list(made)) == (value, list(value))


def test_diff_field_equal_values_write_nothing() -> None:
    for member, value in (
        ("live.moves", POOL),
        ("live.rates", {TARGET: RateSetting(5)}),
        ("ramping", frozenset({TARGET})),
    ):
        assert list(diff_field(member, value, value)) == []
    assert list(diff_field("live.rates", {TARGET: RateSetting(5)}, {TARGET: RateSetting(5)})) == []


def test_decode_piece_unknown_state_field_is_none() -> None:
    assert decode_piece({"field": "live.weather", "op": "set", "value": [7]}) is None


def test_whole_field_large_value_is_split_into_pieces() -> None:
    moves = tuple(move("orders", p) for p in range(1200))
    pieces = list(whole_field("live.moves", moves))
    assert [len(piece.value) for piece in pieces] == [512, 512, 176]
    known: dict[str, Any] = {}
    for piece in read(pieces):
        apply_piece(known, piece)
    assert known["live.moves"] == moves
    assert [piece.value for piece in whole_field("live.rates", {})] == [{}]


# -- a cluster that is too large for one write ------------------------------------------------------------------------

BROKERS = range(1800)


def large(cycle: int) -> Observation:
    sampled_at_ms = NOW_MS + 5000 * cycle
    bare = {"cluster": "", "window_end_ms": 0, "sampled_at_ms": sampled_at_ms}
    return Observation(
        sampled_at_ms + 1,
        live({(b, side): b + cycle for b in BROKERS for side in (L, F)}, moves=LARGE[cycle:], brokers=BROKERS),
        {b: replace(broker_signal(b, leader=b / 7 + cycle), **bare) for b in BROKERS},
        {(b, s): replace(move_signal(b, s, slope=None), **bare) for b in BROKERS for s in (L, F)},
    )


LARGE = tuple(move("orders", p) for p in range(6000))
SAID = [Hold(b, L, Reason.WATCHING, f"broker {b}") for b in range(100)]


def filmed(cycles: int, takes: int) -> tuple[list[list[bytes]], InputLog]:
    """A second from each write to the next."""
    seconds = count(NOW_MS / 1000)
    log = InputLog(SettingsSnapshot(LIMITS, STALL), run="r", program="p", wall_clock=lambda: next(seconds))
    written = []
    for cycle in range(cycles):
        log.record_cycle(large(cycle), Memory(), Memory(), SAID)
        written += [log.take_records() for _ in range(takes)]
    return written, log


def shown(written: Sequence[Sequence[bytes]]) -> tuple[list[RecordedStep], MissedSteps]:
    missed = MissedSteps()
    return list(recorded_steps([decode_chunk(r) for records in written for r in records], missed)), missed


def test_input_log_large_cycle_is_spread_over_writes() -> None:
    written, _ = filmed(3, 6)
    assert max(len(record) for records in written for record in records) < 400_000
    assert sum(bool(records) for records in written) > 6
    steps, missed = shown(written)
    assert (len(steps), missed) == (3, MissedSteps())
    known = steps[0].frame
    assert known is not None
    for cycle, step in enumerate(steps):
        for piece in step.pieces or ():
            apply_piece(known, piece)
        then = large(cycle)
        assert known["signals.brokers"] == then.broker_signals
        assert known["signals.moves"] == then.move_signals
        assert (known["live.moves"], known["live.rates"]) == (then.live.moves, then.live.rates)  # type: ignore[union-attr]


def test_input_log_killed_tuner_loses_only_unwritten_steps() -> None:
    written, _ = filmed(3, 6)
    assert len(shown(written[:13])[0]) == 2  # The third cycle was told and not yet written.
    steps, missed = shown(written[:2])
    assert steps == []
    assert missed.unfinished + missed.before_a_frame <= 1


def test_input_log_writes_share_the_budget_of_a_second() -> None:
    now_s = [NOW_MS / 1000]
    log = InputLog(SettingsSnapshot(LIMITS, STALL), run="r", program="p", wall_clock=lambda: now_s[0])
    log.record_cycle(large(0), Memory(), Memory(), SAID)
    while log.take_records() or log.has_pending:
        now_s[0] += 1.0
    log.record_cycle(large(1), Memory(), Memory(), SAID)
    log.record_cycle(large(2), Memory(), Memory(), SAID)
    now_s[0] += 1.0
    assert [bool(log.take_records()) for _ in range(3)] == [True, False, False]
    now_s[0] += 0.9
    assert not log.take_records()
    now_s[0] += 0.1
    assert [bool(log.take_records()) for _ in range(2)] == [True, False]
    # A clock that is set back does not stop it.
    now_s[0] -= 3600.0
    assert log.take_records()


def test_input_log_backlog_is_written_faster() -> None:
    _, log = filmed(40, 1)
    waiting = len(log._pending_steps)
    assert waiting < 12


def test_input_log_writes_a_frame_every_ten_minutes() -> None:
    now_s = [0.0]
    log = InputLog(SettingsSnapshot(LIMITS, STALL), run="r", program="p", wall_clock=lambda: now_s[0])
    written = []
    for second in range(0, round(2 * FRAME_EVERY_S) + 10, 10):
        now_s[0] = float(second)  # Each second has its own share of what may be written.
        log.record_cycle(observation(live(), now_ms=NOW_MS + 1000 * second), Memory(), Memory(), SAID[:1])
        written += [log.take_records() for _ in range(6)]
    assert [step.number for step in shown(written)[0] if step.frame is not None] == [1, 61, 121]


def test_digest_decisions_many_keeps_actions_and_all_checksums() -> None:
    act = SetRate(3, F, 5 * MB, 6 * MB, Reason.STALLED_THROTTLE_BOUND, "it has stalled")
    many = digest_decisions([*SAID, act])
    assert [row["text"] for row in many["rows"]] == ["it has stalled"]
    other = digest_decisions(
        [*SAID[:50], replace(SAID[50], text="!"), *SAID[51:], replace(act, setpoint_bytes_per_s=6 * MB + 1)]
    )
    sums = zip(unpack_column(many["sums"]), unpack_column(other["sums"]), strict=True)
    assert [i for i, (one, now) in enumerate(sums) if one != now] == [50, 100]
    assert len(digest_decisions(SAID[:ROWS_MAX])["rows"]) == ROWS_MAX


def test_piece_sizes_name_only_known_state_fields() -> None:
    assert codec._ITEMS_PER_PIECE.keys() <= codec.STATE_FIELDS.keys()
