"""Inputs for tests of copies between log directories."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tuner_cases import NOW_MS, broker_signal

from streaming.shared.contract import BrokerSignal
from streaming.shared.log_dirs import LogDirCopy
from tuner.control.log_dir.model import BrokerLogDirs, LogDirPolicy, LogDirView
from tuner.control.throttle.objective import ControlLimits, Objective
from tuner.core.cluster import RateSetting
from tuner.core.operator_orders import Orders
from tuner.core.throttle_limits import MB

BROKER = 3
NO_ORDERS = Orders()
LIMITS = ControlLimits(rate_bytes_per_s_min=5 * MB, rate_bytes_per_s_max=100 * MB)
POLICY = LogDirPolicy(
    objective=Objective(50.0), limits=LIMITS, limits_all_copies=True, adopts_existing=True, external_change_hold_s=600.0
)


def log_dir_copy(
    remaining: float = 1000 * MB, *, size: float = 2000 * MB, topic: str = "t", partition: int = 0
) -> LogDirCopy:
    return LogDirCopy(topic, partition, size_bytes=round(size), copied_bytes=round(size - remaining), directory="/b")


def copying_signal(
    copied: float | None = 20.0 * MB,
    *,
    p99: float | None = 20.0,
    idle: float | None = 0.9,
    age_s: float = 2.0,
    **more: Any,
) -> BrokerSignal:
    """Returns a signal of a broker whose clients write 10 MB/s."""
    signal = broker_signal(BROKER, p99=p99, age_s=age_s)
    fields = {"client_in_bytes_per_s": 10.0 * MB, "produce_mean_ms": None if p99 is None else p99 / 4} | more
    return replace(signal, log_dir_copied_bytes_per_s=copied, request_handler_idle_ratio=idle, **fields)


def log_dir_view(
    rate: float | None = 20 * MB,
    signal: BrokerSignal | None = None,
    copies: tuple[LogDirCopy, ...] = (log_dir_copy(),),
    *,
    now_ms: int = NOW_MS,
    is_set_on_broker: bool = True,
    orders: Orders = NO_ORDERS,
) -> LogDirView:
    """Returns a view of one broker that copies at ``rate``; None: without a limit."""
    setting = None if rate is None else RateSetting(round(rate), is_set_on_broker)
    signals = {} if signal is None else {BROKER: signal}
    return LogDirView(now_ms, {BROKER: BrokerLogDirs(copies, setting)}, signals, orders)
