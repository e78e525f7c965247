"""num.replica.fetchers of a live cluster: read, written, and what it does to the followers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rheostat.console.interrupt import DeferredCtrlC
from streaming.shared import kafka_names
from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.kafka.fetchers import FetcherClient
from streaming.shared.kafka.values import Change as Written
from tuner.core.fetchers import NUM_REPLICA_FETCHERS, NUM_REPLICA_FETCHERS_DEFAULT
from tuner.planning.fetcher_change import CLUSTER_DEFAULT, ConfigTarget, FetcherSetting
from tuner.planning.fetcher_resize_monitor import FollowerSample

_HEARD_WITHIN_S = 0.1


class LiveFetcherSetting:
    def __init__(self, client: FetcherClient, brokers: Sequence[int]) -> None:
        self._client = client
        self._brokers = brokers

    def settings(self) -> dict[int, FetcherSetting]:
        """Of every broker.

        Raises:
            ClusterError: one does not tell.
        """
        found = {}
        for broker, answer in self._client.broker_configs(self._brokers, [NUM_REPLICA_FETCHERS]).items():
            if isinstance(answer, ClusterError):
                raise answer
            config = answer.get(NUM_REPLICA_FETCHERS)
            found[broker] = (
                FetcherSetting(NUM_REPLICA_FETCHERS_DEFAULT)
                if config is None
                else FetcherSetting(int(config.value), own=config.source == kafka_names.SOURCE_DYNAMIC_BROKER)
            )
        return found

    def default(self) -> int | None:
        found = self._client.default_config(NUM_REPLICA_FETCHERS)
        return None if found is None else int(found)

    # -- as rheostat/fetchers/apply.py needs it --------------------------------------------------------------------------

    def write(self, values: Mapping[ConfigTarget, int | None]) -> dict[ConfigTarget, str]:
        texts = {place: None if value is None else str(value) for place, value in values.items()}
        failed: dict[ConfigTarget, str] = {}
        own: dict[int, Mapping[str, Written]] = {}
        for place, text in texts.items():
            if place != CLUSTER_DEFAULT:
                own[place] = {NUM_REPLICA_FETCHERS: text}
                continue
            try:
                error = self._client.alter_default_config(NUM_REPLICA_FETCHERS, text)
            except ClusterError as unanswered:
                error = unanswered
            if error is not None:
                failed[place] = str(error)
        try:
            answers = self._client.alter_broker_configs(own)
        except ClusterError as unanswered:
            answers = dict.fromkeys(own, unanswered)
        return failed | {broker: str(error) for broker, error in answers.items() if error is not None}

    def read(self) -> dict[int, int]:
        found: dict[int, int] = {}
        try:
            answers = self._client.broker_configs(self._brokers, [NUM_REPLICA_FETCHERS])
        except ClusterError:
            return found
        for broker, answer in answers.items():
            if not isinstance(answer, ClusterError):
                config = answer.get(NUM_REPLICA_FETCHERS)
                found[broker] = NUM_REPLICA_FETCHERS_DEFAULT if config is None else int(config.value)
        return found

    def look(self) -> FollowerSample:
        moving = self._client.reassignments()
        states = self._client.partitions()
        behind, ends = self._client.unreplicated_messages(states)
        out_of_sync = sum(len(s.isr) < len(s.replicas) for s in states)
        return FollowerSample(time.monotonic(), out_of_sync, behind, ends, len(moving))


class WallClock:
    """Time as it passes, until Ctrl-C is pressed: heard here, between two calls, and not within one."""

    def __init__(self, ctrl_c: DeferredCtrlC) -> None:
        self._ctrl_c = ctrl_c

    def now_s(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """
        Raises:
            KeyboardInterrupt: it was pressed since the last time.
        """
        until_s = time.monotonic() + seconds
        self._ctrl_c.check()
        while (left_s := until_s - time.monotonic()) > 0:
            # An event would not wake: whoever presses raises nothing here.
            time.sleep(min(left_s, _HEARD_WITHIN_S))
            self._ctrl_c.check()
