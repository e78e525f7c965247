"""Reads and writes num.replica.fetchers of a live cluster, and samples the state of its followers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rheostat.console.interrupt import DeferredCtrlC
from streaming.shared import kafka_names
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka.fetchers import FetcherClient
from streaming.shared.kafka.values import Change, ConfigValue
from tuner.core.fetchers import NUM_REPLICA_FETCHERS, NUM_REPLICA_FETCHERS_DEFAULT
from tuner.planning.fetcher_change import CLUSTER_DEFAULT, ConfigTarget, FetcherSetting
from tuner.planning.fetcher_resize_monitor import FollowerSample

_CTRL_C_CHECK_S = 0.1


class LiveFetcherSetting:
    """Implements ``FetcherSettingPort`` of rheostat/fetchers/apply.py on a live cluster."""

    def __init__(self, client: FetcherClient, brokers: Sequence[int]) -> None:
        self._client = client
        self._brokers = brokers

    def read_settings(self) -> dict[int, FetcherSetting]:
        """Returns the setting of every broker.

        Raises:
            ClusterError: a broker does not answer.
        """
        settings = {}
        for broker, answer in self._client.broker_configs(self._brokers, [NUM_REPLICA_FETCHERS]).items():
            if isinstance(answer, ClusterError):
                raise answer
            settings[broker] = _fetcher_setting(answer)
        return settings

    def read_default(self) -> int | None:
        """Returns the cluster's default; None if it is not set."""
        value = self._client.default_config(NUM_REPLICA_FETCHERS)
        return None if value is None else int(value)

    def write_values(self, values: Mapping[ConfigTarget, int | None]) -> dict[ConfigTarget, str]:
        """Sets or removes (None) the value of each target. Returns the targets that failed, with the error."""
        failed: dict[ConfigTarget, str] = {}
        broker_changes: dict[int, Mapping[str, Change]] = {}
        for target, value in values.items():
            text = None if value is None else str(value)
            if target != CLUSTER_DEFAULT:
                broker_changes[target] = {NUM_REPLICA_FETCHERS: text}
                continue
            # The client raises an error if no broker answers, and returns the error of a broker that refuses the change.
            try:
                refusal = self._client.alter_default_config(NUM_REPLICA_FETCHERS, text)
            except ClusterError as error:
                failed[target] = str(error)
            else:
                if refusal is not None:
                    failed[target] = str(refusal)
        try:
            refusals = self._client.alter_broker_configs(broker_changes)
        except ClusterError as error:
            return failed | dict.fromkeys(broker_changes, str(error))
        return failed | {broker: str(refusal) for broker, refusal in refusals.items() if refusal is not None}

    def read_values(self) -> dict[int, int]:
        """Returns num.replica.fetchers by broker, without the brokers that do not answer."""
        return read_fetchers(self._client, self._brokers)

    def sample_followers(self) -> FollowerSample:
        """Returns the state of all followers now.

        Raises:
            ClusterError: the cluster does not answer.
        """
        moving = self._client.reassignments()
        states = self._client.partitions()
        behind, log_end_sum = self._client.lag_and_log_end(states)
        return FollowerSample(
            time.monotonic(),
            out_of_sync=sum(len(state.isr) < len(state.replicas) for state in states),
            behind=behind,
            end_offsets=log_end_sum,
            moving=len(moving),
        )


def read_fetchers(client: ClusterClient, brokers: Sequence[int]) -> dict[int, int]:
    """Returns num.replica.fetchers by broker, without the brokers that do not answer or refuse access."""
    try:
        answers = client.broker_configs(brokers, [NUM_REPLICA_FETCHERS])
    except ClusterError:
        return {}
    return {
        broker: _fetcher_setting(answer).value
        for broker, answer in answers.items()
        if not isinstance(answer, ClusterError)
    }


def _fetcher_setting(configs: Mapping[str, ConfigValue]) -> FetcherSetting:
    """Returns the setting of one broker from the broker's answer, which lacks settings at Kafka's default."""
    config = configs.get(NUM_REPLICA_FETCHERS)
    if config is None:
        return FetcherSetting(NUM_REPLICA_FETCHERS_DEFAULT)
    is_set_on_broker = config.source == kafka_names.SOURCE_DYNAMIC_BROKER
    return FetcherSetting(int(config.value), is_set_on_broker=is_set_on_broker)


class InterruptibleClock:
    """The machine's monotonic clock. Ctrl-C takes effect while this clock waits, not during a call to the cluster."""

    def __init__(self, ctrl_c: DeferredCtrlC) -> None:
        self._ctrl_c = ctrl_c

    def now_s(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Waits.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed during this wait, or between the previous wait and this one.
        """
        until_s = time.monotonic() + seconds
        self._ctrl_c.check()
        while (left_s := until_s - time.monotonic()) > 0:
            # Short sleeps, because a deferred Ctrl-C does not interrupt a long sleep.
            time.sleep(min(left_s, _CTRL_C_CHECK_S))
            self._ctrl_c.check()
