"""Defines the operator's orders to the tuner: pause, release everything, or override one throttle for a while.

Orders are a state, not a sequence of commands. Only the newest state applies, also to a tuner that starts later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from streaming.shared.contract import Side


@dataclass(frozen=True, slots=True)
class Pause:
    """The tuner changes nothing.

    Attributes:
        by: the operator and the time of the order, as text.
        released: the tuner also restores or removes every managed throttle.
    """

    since_ms: int
    by: str
    released: bool = False


@dataclass(frozen=True, slots=True)
class Override:
    """A fixed rate for one throttle until ``until_ms``. ``by`` names the operator and the end, as text."""

    bytes_per_s: int
    until_ms: int
    by: str


@dataclass(frozen=True, slots=True)
class ClearedThrottles:
    """The throttles that an operator last removed with ``rheostat throttles clear``. The command removes them, not the tuner.

    Attributes:
        at_ms: when the operator confirmed the removal.
        by: the operator, as text.
        settings: a text for each setting, such as ``broker 3 leader throttle 5 MB/s``.
    """

    at_ms: int
    by: str
    settings: tuple[str, ...]


class QuotaTrialKind(StrEnum):
    """The commands that change mutation quotas or topics for a bounded time, and clean up themselves."""

    CALIBRATE = "calibrate"  # ``rheostat quotas calibrate``: topics of its own.
    MEASURE = "measure"  # ``rheostat quotas measure``: a metering quota.


@dataclass(frozen=True, slots=True)
class QuotaTrial:
    """The last trial with mutation quotas that an operator ran. The command makes and removes all changes, not the tuner.

    Attributes:
        at_ms: when the operator confirmed the trial.
        until_ms: while the trial runs, the time by which the command has removed its changes at the latest; afterwards its end.
        by: the operator, as text.
        total_per_s: the total rate that a calibration proposes, in partitions/s; None: it has not ended, or proposes none.
    """

    kind: QuotaTrialKind
    at_ms: int
    until_ms: int
    by: str
    total_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Orders:
    """All orders in force.

    Attributes:
        at_ms: time of the newest order. A tuner acknowledges an order by recording this time.
        resumed_at_ms: when an operator last ordered ``resume``, which ends all earlier holds for externally changed values.
        by: the operator of the newest order.
        cleared: the last removal of throttles by `rheostat throttles clear`; the tuner only records it in its journal.
        trials: the last trial of each kind; the tuner only records them in its journal.
    """

    at_ms: int = 0
    pause: Pause | None = None
    resumed_at_ms: int = 0
    overrides: Mapping[tuple[int, Side], Override] = field(default_factory=dict)
    by: str = ""
    cleared: ClearedThrottles | None = None
    trials: Mapping[QuotaTrialKind, QuotaTrial] = field(default_factory=dict)
