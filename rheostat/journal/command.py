"""`rheostat journal check` and `rheostat journal repair`."""

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
from rheostat.console.rich_console import console_of
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL, CommandError
from rheostat.journal.repair import Mending, mendings
from rheostat.journal.scan import Scan, scanned
from rheostat.run.services import probe
from rheostat.tuner_presence import acting_tuner, read_tuners
from streaming.shared.kafka import consumer
from tuner.journal.kafka_journal import JournalError
from tuner.journal.orders_topic import is_order
from tuner.journal.sender import NotSent, Sender
from tuner.journal.topic_reader import read_journal
from tuner.journal.unreadable import KEY_BYTES_SHOWN

_CLIENT_ID = "rheostat-journal"
_ROWS_MAX = 200


def check(config: Path) -> int:
    """Lists the records that cannot be read. Returns the exit code: 1 where one of them is in force.

    Raises:
        CommandError: the journal cannot be read.
    """
    settings = load_settings(config)
    scan = _scan(settings)
    names = settings.topic_names()
    show(scan, names.journal, names.orders, console_of(sys.stdout))
    return EXIT_NOT_WELL if scan.in_force else EXIT_DONE


def repair(config: Path, *, yes: bool) -> int:
    """Writes what takes the place of unreadable records. Returns the exit code: 1 where some are left as a tuner acts.

    Raises:
        NotConfirmedError: the operator did not agree.
        CommandError: the journal cannot be read or written.
    """
    settings = load_settings(config)
    names, scan = settings.topic_names(), _scan(settings)
    if not scan.in_force:
        out("Every record of the journal that is in force can be read. Nothing was changed.")
        return EXIT_DONE
    acting = acting_tuner(read_tuners(settings, round(time.time() * 1000)))
    todo, left = _divided(mendings(scan), settings.cluster, tuner_acts=acting is not None)
    for each in left:
        tell(f"Not now: {each.text}.")
    if left and acting is not None:
        tell(
            f"A tuner acts ({acting.holder}): it knows what is its own, and writes these records again with its next change. If "
            "they stay, stop it, and repair then."
        )
    if todo:
        confirm(
            [
                f"To be written to {names.journal} and, of orders and plans, {names.orders}:",
                *(f"  {each.text}" for each in todo),
            ],
            yes=yes,
        )
        _write(settings, todo, scan)
        out(f"{len(todo)} records were written.")
    return EXIT_NOT_WELL if left else EXIT_DONE


def _divided(made: list[Mending], cluster: str, *, tuner_acts: bool) -> tuple[list[Mending], list[Mending]]:
    """What may be written now, and what may not: what only a tuner writes, while one of this cluster acts."""
    left = [each for each in made if tuner_acts and each.of_a_tuner and each.cluster == cluster]
    return [each for each in made if each not in left], left


def _scan(settings: Settings) -> Scan:
    probe(settings)
    # What is not committed no tuner reads.
    reader = consumer(settings.kafka, _CLIENT_ID, isolation_level="read_committed")
    try:
        return scanned(read_journal(reader, settings.topic_names().journal))
    except (JournalError, KafkaError) as error:
        raise CommandError(f"The journal cannot be read: {error}.") from error
    finally:
        reader.close(timeout_ms=2000)


def _write(settings: Settings, todo: list[Mending], scan: Scan) -> None:
    """Raises CommandError where it is not known that all is on record, and where a record has come in between."""
    if _scan(settings).in_force.keys() != scan.in_force.keys():
        raise CommandError("The records that cannot be read have changed meanwhile. Nothing was written: ask again.")
    topics = settings.topic_names()
    try:
        for topic in (topics.journal, topics.orders):
            sender = Sender(settings.kafka, topic, _CLIENT_ID)
            try:
                for each in (each for each in todo if is_order(each.key) is (topic == topics.orders)):
                    sender.send(each.key, each.value)
                sender.settle()
            finally:
                sender.close()
    except NotSent as error:
        raise CommandError(f"Not all was written, as {error}: look with `rheostat journal check`.") from error


def show(scan: Scan, journal: str, orders: str, console: Console) -> None:
    if not scan.unreadable:
        out(f"Every record of {journal} and {orders} can be read.")
        return
    table = Table(title=f"Records of {journal} and {orders} that cannot be read", title_justify="left")
    for column in ("partition", "offset", "bytes"):
        table.add_column(column, justify="right")
    for column in ("topic", "key", "why", "what follows"):
        table.add_column(column, overflow="fold")
    for each in scan.unreadable[-_ROWS_MAX:]:
        is_in_force = scan.in_force.get(each.key) is each
        table.add_row(
            str(each.partition),
            str(each.offset),
            str(each.size),
            each.topic or "",
            repr(each.key[:KEY_BYTES_SHOWN]),
            each.why[:200],
            each.effect if is_in_force else "nothing: a later record has taken its place",
        )
    console.print(table)
    if scan.in_force:
        out(
            f"{len(scan.in_force)} of them are in force. `rheostat journal repair` shows what would take their place, and asks."
        )
    else:
        out("None of them is in force.")
