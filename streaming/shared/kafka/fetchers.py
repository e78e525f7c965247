"""Measures the lag of in-sync followers."""

from __future__ import annotations

from collections.abc import Iterable

from streaming.shared.kafka.default_config import DefaultConfigClient
from streaming.shared.kafka.values import PartitionState


class FetcherClient(DefaultConfigClient):
    """An admin connection for changing the number of fetcher threads. Not thread-safe."""

    def lag_and_log_end(self, partitions: Iterable[PartitionState]) -> tuple[int, int]:
        """Returns how many messages the in-sync replicas still lack, and the sum of the leaders' log end offsets.

        Partitions whose leader does not answer are left out.
        """
        states = list(partitions)
        # The log end offsets are read first, so that messages written between the two requests do not count as lag.
        log_ends = self.log_end_offsets(states)
        high_watermarks = self.end_offsets(states)
        lag = sum(max(0, end - high_watermarks.get(key, end)) for key, end in log_ends.items())
        return lag, sum(log_ends.values())
