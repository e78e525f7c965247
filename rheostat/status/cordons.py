"""Reads the cordoned log directories for `rheostat status` and `rheostat doctor`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka.cordons import read_cordons
from tuner.api.cordon_views import cordon_rows
from tuner.control.cordon.model import CordonMemory


def read_cordon_rows(client: ClusterClient, brokers: Collection[int], memory: CordonMemory) -> list[dict[str, Any]]:
    """Returns a row for each broker with cordoned log directories, as JSON values; brokers that do not answer are left out."""
    answers = read_cordons(client, brokers)
    readable = {broker: answer for broker, answer in answers.items() if not isinstance(answer, ClusterError)}
    return cordon_rows(readable, memory)
