"""Computes which fetcher thread of a follower copies a partition, with Kafka's own formula and Java's arithmetic.

    thread = abs(31 × hash(topic) + partition) mod num.replica.fetchers      (AbstractFetcherManager.getFetcherId)

A broker has up to num.replica.fetchers threads for each leader that it follows. So three numbers identify a thread: follower,
leader, thread. The hash and the sum are 32-bit integers that wrap around; abs of the smallest integer is 0 (Utils.abs). The
formula is unchanged in Kafka 4.2.

LINE's engineers found a disadvantage of round-robin placement. The partitions that a follower copies from one leader often have
numbers with a common difference, such as 0, 4, 8. If this difference and the number of threads have a common factor, only a few
threads copy all these partitions.
"""

from __future__ import annotations

NUM_REPLICA_FETCHERS = "num.replica.fetchers"
NUM_REPLICA_FETCHERS_DEFAULT = 1

_WORD = 1 << 32


def topic_hash(topic: str) -> int:
    """Returns Java's ``String.hashCode``, from −2³¹ to 2³¹ − 1."""
    code = 0
    units = topic.encode("utf-16-be")
    for i in range(0, len(units), 2):
        code = (31 * code + (units[i] << 8 | units[i + 1])) % _WORD
    return _signed(code)


def fetcher_number(topic: str, partition: int) -> int:
    """Returns the number (0 to 2³¹ − 1) that, modulo the number of threads, gives the thread."""
    return fetcher_number_from_hash(topic_hash(topic), partition)


def fetcher_number_from_hash(topic_hash: int, partition: int) -> int:
    """Returns ``fetcher_number`` for a topic whose hash is known."""
    mixed = _signed((31 * topic_hash + partition) % _WORD)
    return 0 if mixed == -(_WORD // 2) else abs(mixed)


def fetcher_id(topic: str, partition: int, fetchers: int) -> int:
    """Returns the thread, 0 to ``fetchers`` − 1."""
    return fetcher_number(topic, partition) % fetchers


def resize_steps(fetchers: int, target: int) -> tuple[int, ...]:
    """Returns the values to set one after another. Kafka accepts at most double and at least half of the current value."""
    steps = []
    while fetchers != target:
        fetchers = min(2 * fetchers, target) if target > fetchers else max(fetchers // 2, target)
        steps.append(fetchers)
    return tuple(steps)


def _signed(word: int) -> int:
    return word - _WORD if word >= _WORD // 2 else word
