"""Which fetcher thread copies a partition: Kafka's own sum, with Java's arithmetic.

    thread = abs(31 × hash(topic) + partition) mod num.replica.fetchers      (AbstractFetcherManager.getFetcherId)

Threads are numbered anew towards each leader, so a broker has up to num.replica.fetchers × leaders of them, and one is named by
three numbers: follower, leader, thread. In 32 bits both the hash and the sum wrap around; abs of the least number is 0
(Utils.abs). The same on Kafka 4.2 as when LINE found that round-robin placement and this sum can share a factor.
"""

from __future__ import annotations

import re

NUM_REPLICA_FETCHERS = "num.replica.fetchers"
NUM_REPLICA_FETCHERS_DEFAULT = 1

_WORD = 1 << 32
_CLIENT_ID = re.compile(r"ReplicaFetcherThread-(\d+)-(\d+)")


def topic_hash(topic: str) -> int:
    """``String.hashCode``: from −2³¹ to 2³¹ − 1."""
    code = 0
    units = topic.encode("utf-16-be")
    for i in range(0, len(units), 2):
        code = (31 * code + (units[i] << 8 | units[i + 1])) % _WORD
    return _signed(code)


def fetcher_number(topic: str, partition: int) -> int:
    """0 to 2³¹ − 1: what the thread is worked out from, whatever the number of threads."""
    return fetcher_number_from_hash(topic_hash(topic), partition)


def fetcher_number_from_hash(topic_hash: int, partition: int) -> int:
    """The same, for a topic whose hash is known."""
    mixed = _signed((31 * topic_hash + partition) % _WORD)
    return 0 if mixed == -(_WORD // 2) else abs(mixed)


def fetcher_id(topic: str, partition: int, fetchers: int) -> int:
    """The thread, 0 to ``fetchers`` − 1."""
    return fetcher_number(topic, partition) % fetchers


def client_id(fetcher: int, leader: int) -> str:
    """As a follower's metrics name the thread."""
    return f"ReplicaFetcherThread-{fetcher}-{leader}"


def read_client_id(text: str) -> tuple[int, int] | None:
    """Thread and leader; None where it names no fetcher thread."""
    found = _CLIENT_ID.fullmatch(text)
    return None if found is None else (int(found[1]), int(found[2]))


def resize_steps(fetchers: int, wanted: int) -> tuple[int, ...]:
    """The values to set one after another: Kafka takes at most double the present one, and at least half of it."""
    steps = []
    while fetchers != wanted:
        fetchers = min(2 * fetchers, wanted) if wanted > fetchers else max(fetchers // 2, wanted)
        steps.append(fetchers)
    return tuple(steps)


def _signed(word: int) -> int:
    return word - _WORD if word >= _WORD // 2 else word
