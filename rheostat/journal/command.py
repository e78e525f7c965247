"""Runs `rheostat journal check` and `rheostat journal repair`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from kafka.errors import KafkaError
from rich.console import Console
from rich.table import Table

from rheostat.config.settings import Settings, load_settings
from rheostat.console.confirm import confirm
from rheostat.console.output import out, tell
from rheostat.console.rich_console import console_for
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL, CommandError
from rheostat.journal.repair import RepairRecord, plan_repair
from rheostat.journal.scan import JournalScan, scan_records
from rheostat.run.services import probe
from rheostat.tuner_presence import active_tuner, read_tuners
from streaming.shared.kafka import consumer
from streaming.shared.kafka.clients import READ_ONCE_WAIT_MS
from tuner.journal.kafka_journal import JournalError
from tuner.journal.orders_topic import is_order
from tuner.journal.sender import RecordNotAcknowledged, Sender
from tuner.journal.topic_reader import read_journal
from tuner.journal.unreadable import KEY_BYTES_SHOWN, OLDER_VERSION, UPGRADE_STEPS

_CLIENT_ID = "rheostat-journal"
_ROWS_MAX = 200


def check(config: Path) -> int:
    """Lists the unreadable records, and returns the exit code: 1 if one of the records is in force.

    Raises:
        CommandError: the journal cannot be read.
    """
    settings = load_settings(config)
    scan = _scan(settings)
    names = settings.topic_names()
    show(scan, names.journal, names.orders, console_for(sys.stdout))
    return EXIT_NOT_WELL if scan.in_force else EXIT_DONE


def repair(config: Path, *, yes: bool) -> int:
    """Replaces the unreadable records, and returns the exit code: 1 if some remain because a tuner is active.

    Raises:
        NotConfirmedError: the operator did not agree.
        CommandError: the journal cannot be read or written, or an earlier version of rheostat wrote it.
    """
    settings = load_settings(config)
    names, scan = settings.topic_names(), _scan(settings)
    if not scan.in_force:
        out("Every record that takes effect can be read. Nothing was changed.")
        return EXIT_DONE
    if (refusal := older_version_text(scan, names.journal)) is not None:
        raise CommandError(f"Nothing was changed, because {refusal}.")
    active = active_tuner(read_tuners(settings, round(time.time() * 1000)))
    to_write, postponed = _split(plan_repair(scan), settings.cluster, is_tuner_active=active is not None)
    for record in postponed:
        tell(f"Not repaired now: {record.text}.")
    if postponed and active is not None:
        tell(
            f"A tuner is active ({active.holder}): it knows what it manages, and writes these records again with its next change. "
            "If the records stay unreadable, stop the tuner, and repeat the repair."
        )
    if to_write:
        confirm(
            [
                f"These records will be written to {names.journal}; records of orders and plans to {names.orders}:",
                *(f"  {record.text}" for record in to_write),
            ],
            yes=yes,
        )
        _write(settings, to_write, scan)
        out(f"{len(to_write)} records were written.")
    return EXIT_NOT_WELL if postponed else EXIT_DONE


def older_version_text(scan: JournalScan, journal: str) -> str | None:
    """Returns a sentence if records of an earlier version are in force and stop all tuners; otherwise None.

    The repair must not replace such records. Only the version that wrote them can read which settings it manages, and restore them.
    """
    older = [record for record in scan.in_force.values() if record.is_older and record.blocks]
    if not older:
        return None
    return f"the journal {journal} has {OLDER_VERSION}: {older[0].why}. {UPGRADE_STEPS}"


def _split(
    records: list[RepairRecord], cluster: str, *, is_tuner_active: bool
) -> tuple[list[RepairRecord], list[RepairRecord]]:
    """Returns the records to write now, and the records that must wait while a tuner of this cluster is active."""
    postponed = [
        record for record in records if is_tuner_active and record.is_tuner_record and record.cluster == cluster
    ]
    return [record for record in records if record not in postponed], postponed


def _scan(settings: Settings) -> JournalScan:
    probe(settings)
    # Only committed records count, because a tuner reads only committed records.
    reader = consumer(settings.kafka, _CLIENT_ID, isolation_level="read_committed", fetch_max_wait_ms=READ_ONCE_WAIT_MS)
    try:
        return scan_records(read_journal(reader, settings.topic_names().journal))
    except (JournalError, KafkaError) as error:
        raise CommandError(f"The journal cannot be read: {error}.") from error
    finally:
        reader.close(timeout_ms=2000)


def _write(settings: Settings, records: list[RepairRecord], scan: JournalScan) -> None:
    """Writes the records.

    Raises:
        CommandError: the unreadable records have changed since the scan, or a write was not acknowledged.
    """
    if _scan(settings).in_force.keys() != scan.in_force.keys():
        raise CommandError("The unreadable records have changed meanwhile. Nothing was written: repeat the command.")
    topics = settings.topic_names()
    try:
        for topic in (topics.journal, topics.orders):
            sender = Sender(settings.kafka, topic, _CLIENT_ID)
            try:
                for record in records:
                    if is_order(record.key) is (topic == topics.orders):
                        sender.send(record.key, record.value)
                sender.wait_for_acks()
            finally:
                sender.close()
    except RecordNotAcknowledged as error:
        raise CommandError(
            f"Not all records were written, because {error}: `rheostat journal check` lists the rest."
        ) from error


def show(scan: JournalScan, journal: str, orders: str, console: Console) -> None:
    """Prints the unreadable records and what to do."""
    if not scan.unreadable:
        out(f"Every record of {journal} and {orders} can be read.")
        return
    table = Table(title=f"Records of {journal} and {orders} that cannot be read", title_justify="left")
    for column in ("partition", "offset", "bytes"):
        table.add_column(column, justify="right")
    for column in ("topic", "key", "reason", "effect"):
        table.add_column(column, overflow="fold")
    for record in scan.unreadable[-_ROWS_MAX:]:
        is_in_force = scan.in_force.get(record.key) is record
        table.add_row(
            str(record.partition),
            str(record.offset),
            str(record.size),
            record.topic or "",
            repr(record.key[:KEY_BYTES_SHOWN]),
            record.why[:200],
            record.effect if is_in_force else "nothing: a later record has replaced it",
        )
    console.print(table)
    if (older := older_version_text(scan, journal)) is not None:
        out(f"{older[:1].upper()}{older[1:]}.")
    elif scan.in_force:
        out(
            f"{len(scan.in_force)} of them take effect. `rheostat journal repair` shows the new records, and asks first."
        )
    else:
        out("None of them takes effect.")
