"""Draws a fail-over over time: the active tuner is suspended, and the standby takes over. The times come from the code."""

from __future__ import annotations

from docs_build.drawing import Drawing, Fill
from streaming.shared.lease import SESSION_S
from tuner.runtime.fencing import PROOF_S_MAX

# From the suspension to the successor's first write; tests/integration/test_one_hand.py checks it.
TAKE_OVER_S_MAX = 15.0
_BEGIN_S, _END_S, _WAKES_S = -5.0, 24.0, 19.0
_LEFT, _WIDTH = 160, 1000
_PER_S = (_WIDTH - _LEFT - 30) / (_END_S - _BEGIN_S)
_TOP, _ROW, _BAR = 70, 48, 30

_Bar = tuple[float, float, Fill, str]  # From, to, colour, text.
_ROWS: dict[str, tuple[_Bar, ...]] = {
    "tuner A": (
        (_BEGIN_S, 0, Fill.ORANGE, "acts"),
        (0, _WAKES_S, Fill.GREY, "suspended: writes nothing"),
        (_WAKES_S, _END_S, Fill.PLAIN, "is fenced"),
    ),
    "A's proof": (
        (_BEGIN_S, PROOF_S_MAX, Fill.GREEN, "valid"),
        (PROOF_S_MAX, _END_S, Fill.PLAIN, "expired: A may not write"),
    ),
    "lease in the group": (
        (_BEGIN_S, SESSION_S, Fill.GREEN, f"A, until its session of {SESSION_S:.0f} s ends"),
        (SESSION_S, _END_S, Fill.BLUE, "B"),
    ),
    "tuner B": (
        (_BEGIN_S, SESSION_S, Fill.PLAIN, "stands by, reads the journal ahead"),
        (SESSION_S, TAKE_OVER_S_MAX, Fill.GREY, "fences A, reads rates"),
        (TAKE_OVER_S_MAX, _END_S, Fill.ORANGE, "acts"),
    ),
    "throttles in Kafka": (
        (_BEGIN_S, 0, Fill.ORANGE, "set by A"),
        (0, TAKE_OVER_S_MAX, Fill.GREY, "keep their last rates; the moves go on"),
        (TAKE_OVER_S_MAX, _END_S, Fill.ORANGE, "set by B"),
    ),
}


def draw_fail_over() -> str:
    """Returns the picture as SVG text."""
    bottom = _TOP + len(_ROWS) * _ROW
    picture = Drawing("A fail-over: tuner A is suspended, tuner B takes over", _WIDTH, bottom + 54)
    picture.label(20, 24, picture.title, bold=True)
    subtitle = f"B acts within {TAKE_OVER_S_MAX:.0f} s. A's proof of leadership expires before the group can give the lease to B."
    picture.label(20, 42, subtitle, faint=True)
    for second in range(0, round(_END_S) + 1, 5):
        picture.rule(_x(second), _TOP - 8, bottom)
        picture.label(_x(second), bottom + 18, f"{second} s" if second else "0", anchor="middle")
    picture.label(_WIDTH - 30, bottom + 38, "time since A is suspended", anchor="end", faint=True)
    for row, (name, bars) in enumerate(_ROWS.items()):
        top = _TOP + row * _ROW
        picture.label(_LEFT - 10, top + _BAR / 2 + 4.5, name, anchor="end", bold=True)
        for from_s, to_s, fill, words in bars:
            picture.box(_x(from_s), top, (to_s - from_s) * _PER_S, _BAR, fill, [words])
    return picture.text()


def _x(at_s: float) -> float:
    return _LEFT + (at_s - _BEGIN_S) * _PER_S
