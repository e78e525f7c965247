"""The throttled-replica lists in the journal: which pairs are ours, and one entry for all that a cycle changes on them.

listed   key ``listed|<cluster>|<topic>``: our pairs on the lists of one topic, newer than a memory that was written before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from streaming.shared.short_lists import join_names
from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.control.throttle.decision import AddPairs, RemovePairs
from tuner.journal.bodies import VERSION, ListedBody, ListedRow, decoded

_TEXTS = 3
_PAIRS_MAX = 20_000  # Some 200 kB; Kafka takes 1 MB.


def listed_prefix(cluster: str) -> bytes:
    return f"listed|{cluster}|".encode()


def listed_key(cluster: str, topic: str) -> bytes:
    return listed_prefix(cluster) + topic.encode()


def encode_listed(topic: str, pairs: TopicThrottle) -> bytes:
    return json.dumps({"v": VERSION, "listed": listed_row(topic, pairs)}).encode()


def decode_listed(value: bytes) -> tuple[str, TopicThrottle]:
    """
    Raises:
        ValueError: not a record of a version we read.
    """
    return listed_of(decoded(value, ListedBody).listed)


def listed_row(topic: str, pairs: TopicThrottle) -> list[str]:
    return [topic, pairs.leader.to_text(), pairs.follower.to_text()]


def listed_of(row: ListedRow) -> tuple[str, TopicThrottle]:
    """Raises ValueError for a list that Kafka would not take."""
    return row.topic, TopicThrottle(ThrottledReplicas.parse(row.leader), ThrottledReplicas.parse(row.follower))


def summary(changes: Sequence[AddPairs | RemovePairs]) -> str:
    """Of many topics the first are named."""
    return join_names((change.text for change in changes), _TEXTS, "topics", between="; ")


def rows(changes: Sequence[AddPairs | RemovePairs]) -> Mapping[str, Any]:
    """What an entry for all of them holds."""
    return {"topics": [listed_row(change.topic, change.pairs) for change in changes]}


def batches(changes: Sequence[AddPairs | RemovePairs]) -> Iterator[list[AddPairs | RemovePairs]]:
    """Those of one kind and reason together, as many as a record holds."""
    batch: list[AddPairs | RemovePairs] = []
    held = 0
    for change in changes:
        size = len(change.leader) + len(change.follower)
        if batch and (held + size > _PAIRS_MAX or (type(change), change.reason) != (type(batch[0]), batch[0].reason)):
            yield batch
            batch, held = [], 0
        batch.append(change)
        held += size
    if batch:
        yield batch
