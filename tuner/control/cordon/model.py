"""Values of the controller of cordons: what it reads, and what it remembers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streaming.shared.cordons import BrokerCordon
from tuner.control.cordon.decision import CordonDecision
from tuner.core.cluster import ClusterUnreadable
from tuner.core.cordon_state import CordonState
from tuner.core.operator_orders import Orders
from tuner.core.reassignment_plan import Plan


@dataclass(frozen=True, slots=True)
class OwnedCordon:
    """The entries of ``cordoned.log.dirs`` that rheostat has added on one broker.

    Attributes:
        plan: the plan that ordered the cordon.
        directories: the entries; empty: another tool has removed them, and the plan does not cordon the broker again.
        found: the entries before rheostat added its own.
        was_set: at that time, the setting was set on the broker itself.
        is_written: the broker has shown the entries. Until then the write may have failed.
        missing_since_ms: since when the broker has answered without the entries, although no plan orders them any more; 0: not yet.
    """

    plan: str
    directories: tuple[str, ...]
    found: tuple[str, ...] = ()
    was_set: bool = False
    is_written: bool = False
    missing_since_ms: int = 0


@dataclass(frozen=True, slots=True)
class CordonMemory:
    """The cordons that rheostat manages, by broker."""

    owned: Mapping[int, OwnedCordon] = field(default_factory=dict)

    @property
    def brokers(self) -> list[int]:
        """The brokers on which rheostat may have added entries."""
        return sorted(broker for broker, owned in self.owned.items() if owned.directories)


@dataclass(frozen=True, slots=True)
class CordonView:
    """The inputs of one cycle.

    Attributes:
        now_ms: epoch.
        brokers: the cordons of each living broker, or why they cannot be read.
        plans: all plans on record, also ended ones.
    """

    now_ms: int
    brokers: Mapping[int, BrokerCordon | ClusterUnreadable]
    plans: tuple[Plan, ...]
    orders: Orders


@dataclass(frozen=True, slots=True)
class CordonStep:
    """The result of one cycle: the decisions, the memory after them, and what the executor of plans has to know."""

    decisions: tuple[CordonDecision, ...]
    memory: CordonMemory
    state: CordonState
    brokers: Mapping[int, BrokerCordon]
