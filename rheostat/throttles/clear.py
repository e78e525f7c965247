"""Removes throttles that serve nothing, after a confirmation: `rheostat throttles clear`.

The command records the removal in the orders topic before the first write. It reads each setting again right before its own write,
and leaves the setting if its value has changed since the operator saw it. Lists are removed before rates: without a rate, a listed
replica would catch up at full speed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rheostat.throttles.report import AuditRow
from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.kafka.default_config import DefaultConfigClient
from streaming.shared.kafka_names import LOG_DIR_RATE
from streaming.shared.throttle_settings import RATE_KEYS
from tuner.control.throttle.audit import ThrottleSettings
from tuner.core.outcome import CHANGED_EXTERNALLY, Failure
from tuner.runtime.throttle.actuator import Throttles

_LIST_REMAINS = "not removed, because a throttled-replica list is still set: its replicas would catch up at full speed"


@dataclass(frozen=True, slots=True)
class Removal:
    """The result for one throttle.

    Attributes:
        failure: why the setting is still set; None if the setting is removed, and a broker confirms the removal.
    """

    row: AuditRow
    failure: Failure | None


def clear_throttles(
    rows: Sequence[AuditRow], seen: ThrottleSettings, throttles: Throttles, client: DefaultConfigClient
) -> list[Removal]:
    """Removes the settings of these rows, and returns the result of each.

    Args:
        seen: the settings from which the rows were made. A setting that has another value now is not removed.
    """
    lists = [Removal(row, _remove(row, seen, throttles, client)) for row in rows if row.topic is not None]
    lists_are_removed = all(removal.failure is None for removal in lists)
    rates = [
        # The limit of copies between log directories has no list.
        Removal(row, _remove(row, seen, throttles, client) if lists_are_removed or row.side is None else _LIST_REMAINS)
        for row in rows
        if row.topic is None
    ]
    return lists + rates


def _remove(row: AuditRow, seen: ThrottleSettings, throttles: Throttles, client: DefaultConfigClient) -> Failure | None:
    """Removes one setting. Returns why it is not removed; None if it is removed."""
    try:
        if row.side is None:
            return _remove_log_dir_rate(client, row)
        side = Side(row.side)
        if row.topic is not None:
            return throttles.clear_lists(row.topic, [side], seen.lists[row.topic])
        if row.broker is None:
            return _remove_default(client, RATE_KEYS[side], seen.default_rates[side])
        key = (row.broker, side)
        current = throttles.read_rates([key])[key]
        if isinstance(current, ClusterError):
            return str(current)
        if current != row.rate_bytes_per_s:
            return CHANGED_EXTERNALLY
        no_rate: Mapping[tuple[int, Side], int | None] = {key: None}
        return throttles.write_rates(no_rate)[key] or throttles.confirm_rates(no_rate)[key]
    except ClusterError as error:
        return str(error)


def _remove_default(client: DefaultConfigClient, key: str, seen_bytes_per_s: int) -> Failure | None:
    if client.default_config(key) != str(seen_bytes_per_s):
        return CHANGED_EXTERNALLY
    error = client.alter_default_config(key, None)
    return None if error is None else str(error)


def _remove_log_dir_rate(client: DefaultConfigClient, row: AuditRow) -> Failure | None:
    if row.broker is None:
        assert row.rate_bytes_per_s is not None, "a limit has a rate"
        return _remove_default(client, LOG_DIR_RATE, row.rate_bytes_per_s)
    configs = client.broker_configs([row.broker], [LOG_DIR_RATE])[row.broker]
    if isinstance(configs, ClusterError):
        return str(configs)
    if LOG_DIR_RATE not in configs or configs[LOG_DIR_RATE].value != str(row.rate_bytes_per_s):
        return CHANGED_EXTERNALLY
    error = client.alter_broker_configs({row.broker: {LOG_DIR_RATE: None}})[row.broker]
    return None if error is None else str(error)
