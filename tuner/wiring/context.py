"""What every part of one term is made with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from streaming.shared.contract import Topics
from streaming.shared.kafka import KafkaSettings
from tuner.api.observers import Observers
from tuner.core.partition_limits import PartitionLimits
from tuner.journal.input_log import InputLog
from tuner.journal.kafka_journal import KafkaJournal
from tuner.journal.outbox import Outbox
from tuner.runtime.fencing import PROOF_S_MAX
from tuner.runtime.observe.cluster_reader import LiveReader
from tuner.runtime.observe.orders_reader import OrdersReader
from tuner.runtime.observe.signals_reader import SignalReader
from tuner.settings.tuner import TunerSettings


@dataclass(frozen=True, slots=True)
class TermContext:
    """
    Attributes:
        topics: rheostat's own.
        settings, partition_limits: as they hold in this term.
        journal: recovered already.
        owed: what has happened and is not on record yet.
        ends: of the term, last in first out.
        wall_clock, monotonic: in seconds.
    """

    cluster: str
    kafka: KafkaSettings
    topics: Topics
    settings: TunerSettings
    partition_limits: PartitionLimits | None
    live: LiveReader
    signals: SignalReader
    orders: OrdersReader
    journal: KafkaJournal
    inputs: InputLog
    watched: Observers
    owed: Outbox
    ends: ExitStack
    wall_clock: Callable[[], float]
    monotonic: Callable[[], float]

    def proved(self) -> bool:
        """Whether it was certain a moment ago that this tuner may act; from any thread, and nobody is asked."""
        return not self.journal.lost and self.journal.proved_s_ago() <= PROOF_S_MAX
