"""Reads and writes num.replica.fetchers of a live cluster, and samples the state of its followers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rheostat.console.interrupt import DeferredCtrlC
from streaming.shared import kafka_names
from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.kafka.fetchers import FetcherClient
from streaming.shared.kafka.values import Change
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
            config = answer.get(NUM_REPLICA_FETCHERS)
            settings[broker] = (
                FetcherSetting(NUM_REPLICA_FETCHERS_DEFAULT)
                if config is None
                else FetcherSetting(int(config.value), own=config.source == kafka_names.SOURCE_DYNAMIC_BROKER)
            )
        return settings

    def read_default(self) -> int | None:
        """Returns the cluster's default; None: it is not set."""
        value = self._client.default_config(NUM_REPLICA_FETCHERS)
        return None if value is None else int(value)

    def write(self, values: Mapping[ConfigTarget, int | None]) -> dict[ConfigTarget, str]:
        failed: dict[ConfigTarget, str] = {}
        broker_changes: dict[int, Mapping[str, Change]] = {}
        for target, value in values.items():
            text = None if value is None else str(value)
            if target != CLUSTER_DEFAULT:
                broker_changes[target] = {NUM_REPLICA_FETCHERS: text}
                continue
            try:
                error = self._client.alter_default_config(NUM_REPLICA_FETCHERS, text)
            except ClusterError as no_answer:
                error = no_answer
            if error is not None:
                failed[target] = str(error)
        try:
            answers = self._client.alter_broker_configs(broker_changes)
        except ClusterError as no_answer:
            answers = dict.fromkeys(broker_changes, no_answer)
        return failed | {broker: str(error) for broker, error in answers.items() if error is not None}

    def read(self) -> dict[int, int]:
        """Returns num.replica.fetchers by broker, without the brokers that do not answer."""
        values: dict[int, int] = {}
        try:
            answers = self._client.broker_configs(self._brokers, [NUM_REPLICA_FETCHERS])
        except ClusterError:
            return values
        for broker, answer in answers.items():
            if not isinstance(answer, ClusterError):
                config = answer.get(NUM_REPLICA_FETCHERS)
                values[broker] = NUM_REPLICA_FETCHERS_DEFAULT if config is None else int(config.value)
        return values

    def sample_followers(self) -> FollowerSample:
        moving = self._client.reassignments()
        states = self._client.partitions()
        behind, log_end_sum = self._client.lag_and_log_end(states)
        out_of_sync = sum(len(s.isr) < len(s.replicas) for s in states)
        return FollowerSample(time.monotonic(), out_of_sync, behind, log_end_sum, len(moving))


class WallClock:
    """The machine's clock. Ctrl-C takes effect while the clock waits, not during a call to the cluster."""

    def __init__(self, ctrl_c: DeferredCtrlC) -> None:
        self._ctrl_c = ctrl_c

    def now_s(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Waits.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed since the last call.
        """
        until_s = time.monotonic() + seconds
        self._ctrl_c.check()
        while (left_s := until_s - time.monotonic()) > 0:
            # Short sleeps, because a deferred Ctrl-C does not interrupt a long sleep.
            time.sleep(min(left_s, _CTRL_C_CHECK_S))
            self._ctrl_c.check()
