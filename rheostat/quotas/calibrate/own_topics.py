"""The topics of a calibration: their names, their marker, and the removal of topics that a killed run has left behind.

A topic counts as one of a calibration only if its name has the form of ``RunName``, its retention is the marker, and it has no
records. Everything else stays, whatever its name.

Invariant: no topic is deleted while the run that made it may still be active.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.topic_mutations import TopicMutationClient
from streaming.shared.kafka.values import ClusterError, PartitionState
from streaming.shared.units import count_text
from tuner.core.operator_orders import QuotaTrial

# An unusual value that no other tool sets, so that it marks a topic. No record is ever written, so it has no effect.
MARKER = {"retention.ms": "3600599"}
_REMOVE_S_MAX = 180.0
_PAUSE_S = 0.5


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


def is_calibration_topic(prefix: str, topic: str) -> bool:
    """Whether the name has the form of ``RunName.topic``."""
    return re.fullmatch(rf"{re.escape(prefix)}\.calibrate\.[0-9a-f]{{8}}\.\d{{6}}", topic) is not None


def find_leftovers(client: ClusterClient, prefix: str, run: RunName | None = None) -> list[str]:
    """Returns the existing topics of calibrations, in order.

    Args:
        run: only topics of this run; None: of all runs.

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
    topics_per_s: float,
    notify: Callable[[str], None],
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Deletes the topics until none is listed; returns those that are left after three minutes without progress.

    Args:
        list_topics: returns the topics to delete that still exist.
        topics_per_s: pace, so that the removal itself does not exceed the objective.
    """
    fewest, progress_s, last_error = -1, monotonic(), ""
    while True:
        try:
            topics = list(list_topics())
            brokers = [endpoint.node for endpoint in client.brokers()]
        except ClusterError as error:
            topics, brokers, last_error = [], [], str(error)
            remaining = fewest
        else:
            remaining = len(topics)
            if not topics:
                return []
        if fewest < 0 or remaining < fewest:
            fewest, progress_s = remaining, monotonic()
        elif monotonic() - progress_s > _REMOVE_S_MAX:
            notify(f"{count_text(remaining, 'topic')} could not be deleted: {last_error or 'Kafka still lists them'}.")
            return topics
        last_error = _delete_all(client, topics, brokers, 1 / topics_per_s, sleep) or last_error
        sleep(_PAUSE_S)


def _delete_all(
    client: TopicMutationClient,
    topics: Iterable[str],
    brokers: Collection[int],
    pause_s: float,
    sleep: Callable[[float], None],
) -> str:
    """Requests the deletion of each topic; returns the last error as text."""
    last_error, order = "", sorted(brokers)
    for number, topic in enumerate(topics):
        error = client.delete_through(order[number % len(order)], topic)
        if error is not None:
            last_error = str(error)
        sleep(pause_s)
    return last_error
