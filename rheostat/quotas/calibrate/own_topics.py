"""The topics of a calibration: their names, their marker, and the removal of topics that a killed run has left behind.

A topic counts as a calibration's topic only if its name has the form of ``RunName``, its retention is the marker, and it has no
records. No other topic is deleted.

Invariant: no topic is deleted while the run that created it may still be active.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.topic_mutations import MutationRefused, TopicMutationClient
from streaming.shared.kafka.values import ClusterError, MissingPermission, PartitionState, Unreachable
from streaming.shared.units import count_text
from tuner.core.operator_orders import QuotaTrial

# An unusual value that no other tool sets, so that it marks a topic. No record is ever written, so it has no effect.
MARKER = {"retention.ms": "3600599"}
_REMOVE_S_MAX = 180.0
_PAUSE_S = 0.5
_EMPTY_LISTINGS_MIN = 3  # This number of listings must show no topic before the removal is complete.


@dataclass(frozen=True, slots=True)
class RunName:
    """The common part of the names of one run's topics: ``<prefix>.calibrate.<random>``."""

    prefix: str
    run: str

    @classmethod
    def new(cls, prefix: str) -> RunName:
        return cls(prefix, secrets.token_hex(4))

    def topic(self, number: int) -> str:
        return f"{self.prefix}.calibrate.{self.run}.{number:06d}"


class RunTopics:
    """The topics of one run: creates and deletes them, and knows which of them may exist. Safe from any thread.

    A creation that was not answered may take effect later. So its topic may exist until a deletion is confirmed.
    """

    def __init__(self, names: RunName, replication_factor: int) -> None:
        self.names = names
        self._replication_factor = replication_factor
        self._possible: set[str] = set()

    @property
    def possible(self) -> frozenset[str]:
        """The topics whose creation was requested and not refused, and whose deletion is not confirmed."""
        return frozenset(self._possible)

    def name(self, number: int) -> str:
        return self.names.topic(number)

    def create(self, client: TopicMutationClient, broker: int, topic: str, partitions: int) -> ClusterError | None:
        self._possible.add(topic)
        error = client.create_through(broker, topic, partitions, self._replication_factor, MARKER)
        if isinstance(error, MutationRefused | MissingPermission):
            self._possible.discard(topic)
        return error

    def delete(self, client: TopicMutationClient, broker: int, topic: str) -> ClusterError | None:
        error = client.delete_through(broker, topic)
        if error is None:
            self._possible.discard(topic)
        return error


def is_calibration_topic(prefix: str, topic: str) -> bool:
    """Whether the name has the form of ``RunName.topic``."""
    return re.fullmatch(rf"{re.escape(prefix)}\.calibrate\.[0-9a-f]{{8}}\.\d{{6}}", topic) is not None


def find_leftovers(client: ClusterClient, prefix: str, run: RunName | None = None) -> list[str]:
    """Returns the existing topics of calibrations, in order.

    Args:
        run: only topics of this run; None means the topics of all runs.

    Raises:
        ClusterError: the topics cannot be read.
    """
    states: dict[str, list[PartitionState]] = {}
    for state in client.partitions():
        if is_calibration_topic(prefix, state.topic):
            states.setdefault(state.topic, []).append(state)
    if run is not None:
        return sorted(topic for topic in states if topic.startswith(run.topic(0)[:-6]))
    marked = {name for name, configs in client.topic_configs(states, MARKER).items() if configs == MARKER}
    candidates = [state for topic in marked for state in states[topic]]
    ends = client.end_offsets(candidates)
    # A partition whose leader does not answer may have records, so its topic stays.
    with_records = {state.topic for state in candidates if ends.get((state.topic, state.partition)) != 0}
    return sorted(marked - with_records)


def is_run_active(trial: QuotaTrial | None, now_ms: int) -> bool:
    """Whether a recorded calibration may still run: it has not ended, and its time is not over."""
    return trial is not None and now_ms < trial.until_ms


def remove_topics(
    client: TopicMutationClient,
    list_topics: Callable[[], Collection[str]],
    *,
    possible: Collection[str] = (),
    unanswered_s: float = 0.0,
    topics_per_s: float,
    notify: Callable[[str], None],
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Deletes the topics. Returns the topics that are left after three minutes without progress, or without the right to delete.

    Args:
        list_topics: returns the topics to delete that still exist.
        possible: topics that may exist although no broker lists them yet; each is deleted by its name.
        unanswered_s: the time in which a creation without an answer may still take effect. During this time, no topic may be
            listed.
        topics_per_s: the rate of deletions, so that the removal itself does not exceed the objective.
    """
    unconfirmed, left, last_error = set(possible), sorted(possible), ""
    fewest, progress_s, passes = -1, monotonic(), 0
    empty_since_s: float | None = None
    while True:
        try:
            topics = sorted({*list_topics(), *unconfirmed})
            brokers = sorted(endpoint.node for endpoint in client.brokers())
        except ClusterError as error:
            topics, brokers, last_error = [], [], str(error)
        else:
            left = topics
            if fewest < 0 or len(left) < fewest:
                fewest, progress_s = len(left), monotonic()
            if left:
                empty_since_s = None
            elif empty_since_s is None:
                empty_since_s = monotonic()
            if empty_since_s is not None and monotonic() - empty_since_s >= unanswered_s:
                return []
        first = passes % len(brokers) if brokers else 0
        deleted, errors = _delete_all(client, topics, brokers[first:] + brokers[:first], 1 / topics_per_s, sleep)
        unconfirmed -= deleted
        passes += 1
        last_error = next((str(error) for error in errors.values()), last_error)
        is_refused = bool(topics) and all(isinstance(errors.get(topic), MissingPermission) for topic in topics)
        if is_refused or monotonic() - progress_s > _REMOVE_S_MAX:
            notify(_left_text(left, last_error))
            return left
        sleep(_PAUSE_S if left else max(_PAUSE_S, unanswered_s / _EMPTY_LISTINGS_MIN))


def _left_text(left: Collection[str], last_error: str) -> str:
    if not left:
        return f"It is unknown whether topics are left: {last_error}. `rheostat quotas calibrate --clear` deletes them later."
    return f"{count_text(len(left), 'topic')} could not be deleted: {last_error or 'Kafka still lists them'}."


def _delete_all(
    client: TopicMutationClient,
    topics: Iterable[str],
    brokers: Sequence[int],
    pause_s: float,
    sleep: Callable[[float], None],
) -> tuple[set[str], dict[str, ClusterError]]:
    """Requests the deletion of each topic through the brokers in turn. Returns the deleted topics, and the errors by topic.

    After a request without an answer, the other topics stay, because each of their requests could take as long.
    """
    deleted, errors = set[str](), dict[str, ClusterError]()
    for number, topic in enumerate(topics):
        error = client.delete_through(brokers[number % len(brokers)], topic)
        if error is None:
            deleted.add(topic)
        else:
            errors[topic] = error
        if isinstance(error, Unreachable):
            break
        sleep(pause_s)
    return deleted, errors
