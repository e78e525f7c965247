"""The mutation quota controller of test_mutation_quota_controller.py, with all inputs recorded for replay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from fake_quotas import FakeQuotas
from mutation_rig import START_MS
from test_mutation_quota_controller import FakeJournal, Rig
from tuner_cases import LIMITS, STALL

from tuner.control.mutation_quota.model import MutationPolicy
from tuner.core.quota_window import QuotaWindow
from tuner.journal.entries import Entry
from tuner.journal.input_log import InputLog
from tuner.journal.kafka_journal import JournalError
from tuner.journal.settings_snapshot import SettingsSnapshot
from tuner.replay.recording import MissedSteps, decode_chunk, recorded_steps
from tuner.replay.replayer import ReplayedStep, Replayer

BEGAN_S = START_MS / 1000


@dataclass
class FilmedJournal(FakeJournal):
    """Records the inputs with each journal write, in one transaction."""

    inputs: InputLog | None = None
    runs: int = 0
    film: list[bytes] = field(default_factory=list)

    def write(
        self, entries: Sequence[Entry] = (), *, other_records: Mapping[bytes, bytes | None] | None = None
    ) -> None:
        assert self.inputs is not None
        taken = self.inputs.take_records()
        try:
            super().write(entries, other_records=other_records)
        except JournalError:
            self.inputs.discard_pending()
            raise
        self.film += taken


class Filmed(Rig):
    """One run of a tuner. A later run gets the journal and the quotas of an earlier one."""

    def __init__(
        self,
        quotas: FakeQuotas | None = None,
        policy: MutationPolicy | None = None,
        *,
        journal: FilmedJournal | None = None,
        inputs: InputLog | None = None,
        now_s: float = BEGAN_S,
        asked: bool = True,
        dry_run: bool = False,
        windows: Callable[[], Set[QuotaWindow]] | None = None,
    ) -> None:
        self.filmed = journal or FilmedJournal()
        self.filmed.runs += 1
        self.inputs = inputs or InputLog(
            SettingsSnapshot(LIMITS, STALL),
            run=f"run {self.filmed.runs}",
            program="test",
            wall_clock=lambda: self.now_s,
        )
        self.filmed.inputs = self.inputs
        super().__init__(
            quotas, policy, journal=self.filmed, now_s=now_s, asked=asked, dry_run=dry_run, inputs=self.inputs,
            windows=windows,
        )  # fmt: skip

    def cycles(self, count: int, *users: str) -> None:
        for _ in range(count):
            self.cycle(*users)

    def replayed(
        self, records: Iterable[bytes] | None = None, policy: SettingsSnapshot | None = None
    ) -> list[ReplayedStep]:
        return replayed(self.filmed.film if records is None else records, policy)


def replayed(records: Iterable[bytes], policy: SettingsSnapshot | None = None) -> list[ReplayedStep]:
    return list(Replayer(policy).replay(recorded_steps(map(decode_chunk, records), MissedSteps())))


def differing(played: Iterable[ReplayedStep]) -> list[ReplayedStep]:
    return [one for one in played if one.decisions != one.step.decisions or one.differing_fields]
