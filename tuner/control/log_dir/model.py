"""Defines the policy, the inputs and the state of the controller of copies between log directories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streaming.shared.contract import BrokerSignal
from streaming.shared.log_dirs import LogDirCopy
from tuner.control.log_dir.decision import LogDirDecision
from tuner.control.log_dir.law import LogDirLaw
from tuner.control.log_dir.progress import CopyHistory, CopyProgress
from tuner.control.throttle.objective import ControlLimits, Objective
from tuner.control.throttle.state import OwnedRate
from tuner.core.broker_baseline import BrokerBaseline
from tuner.core.cluster import ClusterUnreadable, RateSetting
from tuner.core.operator_orders import Orders


@dataclass(frozen=True, slots=True)
class LogDirPolicy:
    """The settings of the operator.

    Attributes:
        objective: has the highest p99 of produce requests; None: the controller only reports the copies.
        limits: the constants of the control law, with the operator's ceiling and minimum.
        limits_all_copies: the controller also limits copies that run without a limit.
        adopts_existing: the controller also changes limits that were set before it started.
        external_change_hold_s: how long a limit that another client has changed is left alone.
    """

    objective: Objective | None
    limits: ControlLimits
    limits_all_copies: bool
    adopts_existing: bool
    external_change_hold_s: float


@dataclass(frozen=True, slots=True)
class BrokerLogDirs:
    """The copies of one broker, and the limit that is in force on the broker; ``rate`` None: no limit."""

    copies: tuple[LogDirCopy, ...] = ()
    rate: RateSetting | None = None

    @property
    def rate_on_broker(self) -> int | None:
        """The limit that is set on the broker itself, in bytes/s."""
        return self.rate.bytes_per_s if self.rate is not None and self.rate.is_set_on_broker else None


@dataclass(frozen=True, slots=True)
class LogDirView:
    """The inputs of one cycle.

    Attributes:
        brokers: the copies and limits of the brokers that were read: brokers that copied in the last cycle, brokers with a managed
            limit, and some other brokers in turn.
        signals: the newest signal of each broker.
        baselines: each broker's usual latency without copies.
    """

    now_ms: int
    brokers: Mapping[int, BrokerLogDirs | ClusterUnreadable]
    signals: Mapping[int, BrokerSignal]
    orders: Orders = field(default_factory=Orders)
    baselines: Mapping[int, BrokerBaseline] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogDirMemory:
    """The state between two cycles, by broker.

    Attributes:
        owned: the managed limits. A limit is noted before it is written, until it is restored.
        histories: the last reads of the brokers that copy. Not in the journal.
        laws: the state of the control law. Not in the journal.
        reads_without_copies: number of reads in a row without a copy, on brokers with a managed limit. Not in the journal.
    """

    owned: Mapping[int, OwnedRate] = field(default_factory=dict)
    externally_owned_until_ms: Mapping[int, int] = field(default_factory=dict)
    histories: Mapping[int, CopyHistory] = field(default_factory=dict)
    laws: Mapping[int, LogDirLaw] = field(default_factory=dict)
    reads_without_copies: Mapping[int, int] = field(default_factory=dict)

    @property
    def watched_brokers(self) -> frozenset[int]:
        """The brokers that every cycle has to read."""
        return frozenset((*self.owned, *self.histories))


@dataclass(frozen=True, slots=True)
class LogDirRow:
    """The copies of one broker after a cycle, for the status.

    Attributes:
        copied_bytes_per_s: the traffic that counts against the limit.
        rate_bytes_per_s: the limit in force at the beginning of the cycle; None: there is none.
    """

    broker: int
    progress: CopyProgress
    copied_bytes_per_s: float | None
    rate_bytes_per_s: int | None
    decision: LogDirDecision


@dataclass(frozen=True, slots=True)
class LogDirStep:
    """The result of one cycle. A broker that copies has a row, and one decision."""

    memory: LogDirMemory
    decisions: tuple[LogDirDecision, ...] = ()
    rows: tuple[LogDirRow, ...] = ()
