"""Defines the inputs and the state of the controller of cordons."""

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
        directories: the entries that rheostat added; empty: another tool has removed them, and the plan does not add them again.
        found: the entries of other tools before rheostat added its own.
        was_set: before rheostat added its entries, the setting was set on the broker itself.
        is_written: the broker has shown the entries. While this is False, the write may have failed.
        missing_since_ms: used only if the write of the entries got no answer, and no plan orders them any more. It is the time
            (epoch) at which the broker first answered without the entries; 0: the broker has not answered since. The write may
            still take effect after this time.
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
        brokers: the cordons of each living broker, or the reason why they cannot be read.
        plans: all plans in the journal, also plans that have ended.
    """

    now_ms: int
    brokers: Mapping[int, BrokerCordon | ClusterUnreadable]
    plans: tuple[Plan, ...]
    orders: Orders


@dataclass(frozen=True, slots=True)
class CordonStep:
    """The result of one cycle.

    Attributes:
        state: the cordons as the executor of plans needs them.
        brokers: the cordons of each broker that could be read.
    """

    decisions: tuple[CordonDecision, ...]
    memory: CordonMemory
    state: CordonState
    brokers: Mapping[int, BrokerCordon]
