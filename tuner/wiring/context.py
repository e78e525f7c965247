"""The parts that a leadership term builds its controllers from."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from streaming.shared.contract import Topics
from streaming.shared.kafka import KafkaSettings
from tuner.api.observers import Observers
from tuner.core.partition_limits import PartitionLimits
from tuner.core.vetoes import Veto
from tuner.journal.input_log import InputLog
from tuner.journal.kafka_journal import KafkaJournal
from tuner.journal.outbox import Outbox
from tuner.runtime.clock import Clock
from tuner.runtime.fencing import PROOF_S_MAX
from tuner.runtime.observe.cluster_reader import ClusterReader
from tuner.runtime.observe.orders_reader import OrdersReader
from tuner.runtime.observe.recovery_watch import RecoveryWatch
from tuner.runtime.observe.signals_reader import SignalReader
from tuner.settings.tuner import TunerSettings


@dataclass(frozen=True, slots=True)
class TermContext:
    """Clients, readers and settings of one leadership term.

    Attributes:
        topics: rheostat's own topics.
        settings: in force at the start of the term. During the term only the schedule changes the policy in them (schedule.py).
        file_settings: the settings of the file, without the changes of the schedule.
        live: reads the state of the cluster.
        recoveries: finds recovering replicas; None if they are ignored.
        vetoes: returns the external checks that veto now.
        journal: already read to its end.
        observers: receive every cycle for the API and the metrics.
        outbox: events that are not in the journal yet.
        cleanups: close the parts of the term, the last one first.
    """

    cluster: str
    kafka: KafkaSettings
    topics: Topics
    settings: TunerSettings
    file_settings: TunerSettings
    partition_limits: PartitionLimits | None
    live: ClusterReader
    signals: SignalReader
    orders: OrdersReader
    journal: KafkaJournal
    inputs: InputLog
    observers: Observers
    outbox: Outbox
    cleanups: ExitStack
    clock: Clock
    recoveries: RecoveryWatch | None = None
    vetoes: Callable[[], tuple[Veto, ...]] = tuple

    def is_leadership_proved(self) -> bool:
        """Returns whether the last proof of leadership is recent enough to write. Sends no request; any thread may call this."""
        return not self.journal.lost and self.journal.proof_age_s() <= PROOF_S_MAX
