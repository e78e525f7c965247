"""Runs `rheostat throttles` and `rheostat throttles clear`.

Both commands read the cluster itself, so they need no stream and no tuner. The journal tells which settings rheostat manages
and when it changed them. The signals or the JMX agents tell the traffic.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from rheostat.config.settings import Settings, load_settings
from rheostat.console.confirm import check_can_confirm, confirm
from rheostat.console.output import out, tell
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL, CommandError, UnreachableError
from rheostat.orders import send
from rheostat.run.services import probe
from rheostat.status.journal import RING_SIZES, read_journal_state
from rheostat.throttles.clear import clear_throttles
from rheostat.throttles.cluster_settings import read_throttle_settings
from rheostat.throttles.report import AuditRow, ThrottleHistory, report_json, throttle_rows
from rheostat.throttles.traffic import measure_traffic
from streaming.shared.kafka.cluster import ClusterError, Unreachable
from streaming.shared.kafka.default_config import DefaultConfigClient
from tuner.control.throttle.audit import ThrottleSettings
from tuner.runtime.throttle.actuator import KafkaThrottles

_CLIENT_ID = "rheostat-throttles"


def run_throttles(config: Path, *, as_json: bool) -> int:
    """Prints the throttles. Returns exit code 1 if a throttle serves nothing."""
    settings = load_settings(config)
    with _open_client(settings) as client:
        history = _read_history(settings)
        now_ms = _now_ms()
        throttles = read_throttle_settings(client)
        traffic = measure_traffic(client, settings, now_ms, log_dirs=throttles.log_dir_rates.keys())
        rows = throttle_rows(throttles, history, traffic, now_ms)
    if as_json:
        out(json.dumps(report_json(settings.cluster, rows, now_ms), indent=2))
    else:
        from rheostat.console.rich_console import console_for
        from rheostat.throttles.view import show

        show(rows, console_for(sys.stdout), now_ms)
    return EXIT_NOT_WELL if any(row.serves == "nothing" for row in rows) else EXIT_DONE


def run_clear(config: Path, *, yes: bool, as_json: bool) -> int:
    """Removes the throttles that serve nothing and that rheostat does not manage.

    Returns exit code 1 if a throttle could not be removed.
    """
    check_can_confirm(yes=yes)
    settings = load_settings(config)
    with _open_client(settings) as client:
        history = _read_history(settings)
        _, shown = _clearable(client, history)
        if not shown:
            tell(
                "Nothing to remove: each throttle serves a move or a recovery, waits for an offline broker, is managed by "
                "rheostat, or is in a broker's file."
            )
            if as_json:
                out(json.dumps([]))
            return EXIT_DONE
        confirm([f"Remove {_row_text(row)}." for row in shown], yes=yes)
        # While the operator read the question, a move may have begun, or a tuner may have taken a throttle over.
        seen, current = _clearable(client, _read_history(settings))
        rows = [row for row in current if _row_text(row) in {_row_text(each) for each in shown}]
        if rows:
            send.submit(settings, send.clear([_row_text(row) for row in rows]))
        removals = clear_throttles(rows, seen, KafkaThrottles(client), client)
    names = {row.name for row in rows}
    kept = [row for row in shown if row.name not in names]
    for row in kept:
        tell(f"{row.name}: not removed: it has changed, or a move, a recovery or an offline broker needs it now.")
    for removal in removals:
        tell(f"{removal.row.name}: {'removed' if removal.failure is None else f'not removed: {removal.failure}'}.")
    if as_json:
        out(json.dumps([{"throttle": asdict(r.row), "failure": r.failure} for r in removals], indent=2))
    return EXIT_NOT_WELL if kept or any(removal.failure is not None for removal in removals) else EXIT_DONE


def _clearable(client: DefaultConfigClient, history: ThrottleHistory) -> tuple[ThrottleSettings, list[AuditRow]]:
    """Reads all throttles, and returns them with the rows of the throttles that can be cleared."""
    settings = read_throttle_settings(client)
    return settings, [row for row in throttle_rows(settings, history, {}, _now_ms()) if row.can_be_cleared]


def _row_text(row: AuditRow) -> str:
    return f"{row.name} ({row.value_text})"


def _read_history(settings: Settings) -> ThrottleHistory:
    state = read_journal_state(settings, RING_SIZES).state
    if state.memory is None:
        raise CommandError(
            "The journal was not read to its end, so it is unknown which throttles rheostat manages. Try again."
        )
    entries, managed = tuple(state.entries["entry"]), frozenset(state.log_dirs.owned)
    return ThrottleHistory(state.memory, state.orders, entries, managed)


@contextmanager
def _open_client(settings: Settings) -> Iterator[DefaultConfigClient]:
    probe(settings)
    with DefaultConfigClient(settings.kafka, _CLIENT_ID) as client:
        try:
            yield client
        except Unreachable as error:
            raise UnreachableError(str(error)) from error
        except ClusterError as error:
            raise CommandError(f"The throttles cannot be read: {error}.") from error


def _now_ms() -> int:
    return round(time.time() * 1000)
