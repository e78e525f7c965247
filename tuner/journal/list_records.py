"""Records of the throttled-replica lists: the pairs that the tuner manages, and entries for changes of the lists.

listed   key ``listed|<cluster>|<topic>``: the managed pairs (partition:broker) of one topic. The record updates the memory record
         that precedes it (entries.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from streaming.shared.short_lists import join_names
from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.control.throttle.decision import AddPairs, RemovePairs
from tuner.journal.bodies import VERSION, ListedBody, ListedRow, decode_body

_TEXTS_MAX = 3
_PAIRS_MAX = 20_000  # About 200 kB; Kafka's max.message.bytes is 1 MB.


def listed_prefix(cluster: str) -> bytes:
    return f"listed|{cluster}|".encode()


def listed_key(cluster: str, topic: str) -> bytes:
    return listed_prefix(cluster) + topic.encode()


def encode_listed(topic: str, pairs: TopicThrottle) -> bytes:
    return json.dumps({"v": VERSION, "listed": listed_row(topic, pairs)}).encode()


def decode_listed(value: bytes) -> tuple[str, TopicThrottle]:
    """Returns a topic and its managed pairs.

    Raises:
        ValueError: as ``decode_body``, or a list that Kafka would refuse.
    """
    return listed_of(decode_body(value, ListedBody).listed)


def listed_row(topic: str, pairs: TopicThrottle) -> list[str]:
    return [topic, pairs.leader.to_text(), pairs.follower.to_text()]


def listed_of(row: ListedRow) -> tuple[str, TopicThrottle]:
    """Returns a topic and its managed pairs. Raises ValueError for a list that Kafka would refuse."""
    return row.topic, TopicThrottle(ThrottledReplicas.parse(row.leader), ThrottledReplicas.parse(row.follower))


def changes_text(changes: Sequence[AddPairs | RemovePairs]) -> str:
    """Returns the changes as text, which names only the first topics if there are many."""
    return join_names((change.text for change in changes), _TEXTS_MAX, "topics", separator="; ")


def entry_rows(changes: Sequence[AddPairs | RemovePairs]) -> Mapping[str, Any]:
    """Returns the ``decision`` field of the entry for these changes."""
    return {"topics": [listed_row(change.topic, change.pairs) for change in changes]}


def split_into_records(changes: Sequence[AddPairs | RemovePairs]) -> Iterator[list[AddPairs | RemovePairs]]:
    """Yields successive changes of one kind and reason together, as many as fit a record."""
    batch: list[AddPairs | RemovePairs] = []
    batch_pairs = 0
    for change in changes:
        pairs = len(change.leader) + len(change.follower)
        is_other_kind = bool(batch) and (type(change), change.reason) != (type(batch[0]), batch[0].reason)
        if batch and (batch_pairs + pairs > _PAIRS_MAX or is_other_kind):
            yield batch
            batch, batch_pairs = [], 0
        batch.append(change)
        batch_pairs += pairs
    if batch:
        yield batch
