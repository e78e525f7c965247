"""Follows the profiles topic, which `rheostat learn` writes."""

from __future__ import annotations

from collections.abc import Callable

from kafka import KafkaConsumer

from tuner.runtime.observe.background_reader import BackgroundReader
from tuner.runtime.observe.profiles_reader import ProfilesReader

_EVERY_S = 15.0  # Profiles change every ten minutes at most.


def profiles_follower(
    create_consumer: Callable[[], KafkaConsumer],
    topic: str,
    cluster: str,
    publish: Callable[[ProfilesReader], None],
    *,
    every_s: float = _EVERY_S,
) -> BackgroundReader:
    """Returns a thread that reads all profiles, and then new profiles as they arrive.

    Args:
        create_consumer: as in ``BackgroundReader``.
        publish: called in the thread after each read that returned records.
    """

    def follow(consumer: KafkaConsumer, thread: BackgroundReader) -> None:
        reader = ProfilesReader(consumer, topic, cluster)
        while not thread.is_stopping:
            taken = reader.poll()
            if taken and not thread.is_stopping:
                publish(reader)
            thread.wait(every_s)

    return BackgroundReader("profiles topic", create_consumer, topic, follow, again_s=every_s)
