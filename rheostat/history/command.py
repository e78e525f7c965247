"""Runs `rheostat history`: reads the periods of the history topic, and shows, prints or draws them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

from rheostat.config.settings import Settings, load_settings
from rheostat.console.output import out, tell
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL, CommandError
from rheostat.history.chart import draw_history
from rheostat.history.report import HistoryReport, as_record, build_report
from rheostat.line_chart import check_plot_path, write_plot
from rheostat.metrics_cluster import metrics_consumer
from rheostat.run.services import probe_kafka
from streaming.shared.contract import HistoryPeriod
from streaming.shared.kafka.history_topic import HistoryTopic, latest
from tuner.journal.topic_tail import KAFKA_ERRORS

_CLIENT_ID = "rheostat-history-view"


def run_history(config: Path, since_s: float, brokers: Collection[int], *, as_json: bool, plot: Path | None) -> int:
    """Shows the history of the last ``since_s`` seconds, and returns exit code 1 if there is none.

    Args:
        brokers: the brokers to show; empty means all.
        plot: the file into which to draw the history; None means no drawing.
    """
    if plot is not None:
        check_plot_path(plot)
    settings = load_settings(config)
    now_ms = int(time.time() * 1000)
    probe_kafka(settings.metrics_kafka)
    since_ms = now_ms - round(since_s * 1000)
    periods, refused = _read(settings, since_ms)
    report = build_report(settings.cluster, periods, brokers, since_ms, now_ms)
    _show(report, as_json=as_json)
    if refused:
        tell(
            f"{refused} records of {settings.topic_names().history} are not readable and are left out: another version of "
            "rheostat, or another client, has written them."
        )
    if plot is not None and report.rows:
        write_plot(plot, draw_history(report))
        tell(f"drawn: {plot}")
    if not report.rows:
        tell(f"There is no history {_missing_text(report, brokers)}. {_advice(settings)}")
        return EXIT_NOT_WELL
    return EXIT_DONE


def _show(report: HistoryReport, *, as_json: bool) -> None:
    if as_json:
        out(json.dumps(as_record(report), indent=2))
    elif report.rows:
        from rheostat.console.rich_console import console_for
        from rheostat.history.view import show

        show(report, console_for(sys.stdout))


def _missing_text(report: HistoryReport, brokers: Collection[int]) -> str:
    if report.periods_in_time and brokers:
        return f"of broker {', '.join(map(str, sorted(brokers)))}, only of other brokers"
    return "for this time"


def _advice(settings: Settings) -> str:
    return (
        f"`rheostat stream` writes {settings.topic_names().history} ten minutes after its first signals, and then every ten "
        "minutes; if a pass fails, its log names the cause."
    )


def _read(settings: Settings, since_ms: int) -> tuple[list[HistoryPeriod], int]:
    """Returns the periods of the settings' cluster in order of time, and the number of unreadable records.

    Raises:
        CommandError: the topic cannot be read.
    """
    name = settings.topic_names().history
    try:
        with closing(metrics_consumer(settings, _CLIENT_ID)) as reader:
            topic = HistoryTopic(reader, name)
            return latest(topic.periods(settings.cluster, since_ms)), topic.refused
    except KAFKA_ERRORS as error:
        raise CommandError(f"The history cannot be read: {type(error).__name__}: {error}") from error
