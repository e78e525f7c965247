"""Builds the monitor of replication lag, with a Kafka client of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.teardown import named_teardown
from tuner.api.lag_status_store import LagStatusStore
from tuner.core.cluster import BrokerSide, Observation
from tuner.runtime.background_call import ThreadCaller
from tuner.runtime.replication_lag.monitor import LagMonitor, LagPorts
from tuner.settings.tuner import TunerSettings
from tuner.wiring.context import TermContext


def lag_monitor(context: TermContext, status: LagStatusStore) -> LagMonitor:
    """Returns the monitor of this term. Its client connects when the first broker lags."""
    client = ClusterClient(context.kafka, "rheostat-tuner-lag")
    context.cleanups.callback(named_teardown("lag client", client.close))
    ports = LagPorts(
        latest=partial(_last_observation, context),
        read_partitions=client.partitions,
        caller=ThreadCaller(),
        observer=status,
    )
    return LagMonitor(ports, context.clock, _network_capacity(context.settings))


def _last_observation(context: TermContext) -> tuple[Observation, frozenset[BrokerSide]] | None:
    """Returns the observation of the last cycle, and the throttles that the tuner manages."""
    result = context.observers.status.snapshot()
    return None if result.observation is None else (result.observation, frozenset(result.memory.owned))


def _network_capacity(settings: TunerSettings) -> Callable[[int], tuple[float, float] | None]:
    capacity = settings.capacity
    if capacity is None:
        return lambda _: None
    by_broker = {broker: (c.in_bytes_per_s, c.out_bytes_per_s) for broker, c in capacity.by_broker().items()}
    default = (capacity.in_bytes_per_s, capacity.out_bytes_per_s)
    return lambda broker: by_broker.get(broker, default)
