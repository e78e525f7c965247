"""The text of `rheostat status`."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from rheostat.status.active_tuner import tuner_json
from rheostat.status.text import print_status
from tuner.api.log_dir_views import log_dir_json
from tuner.control.log_dir.progress import CopyProgress
from tuner.journal.unreadable import UnreadableRecord, unreadable_texts


def shown(**parts: Any) -> str:
    nothing = {
        "cluster": "lab",
        "tuner": tuner_json((), 5e7),
        "schedule": None,
        "headline": "Nothing is moving.",
        "next": [],
        "throttle_decisions": [],
        "brokers": [],
        "moves": [],
        "last_decisions": [],
        "last_steering_ticks": [],
        "log_dirs": [],
        "cordons": [],
    }
    text = io.StringIO()
    print_status(nothing | parts, Console(file=text, width=200))
    return text.getvalue()


def test_copies_between_log_directories_have_a_line_each() -> None:
    progress = CopyProgress(partitions=2, remaining_bytes=3_000_000_000, eta_s=150.0)
    limited = log_dir_json(1, progress, 20e6, 25_000_000, managed=True)
    free = log_dir_json(2, CopyProgress(partitions=1, remaining_bytes=5_000_000), None, None, managed=False)
    assert [line for line in shown(log_dirs=[limited, free]).splitlines() if "log directories" in line] == [
        "Broker 1 copies 2 partitions between its log directories: 3.00 GB remain, 20.0 MB/s of the limit of 25.0 MB/s, "
        "done in about 2 min 30 s.",
        "Broker 2 copies 1 partition between its log directories: 5.00 MB remain.",
    ]


def test_steering_ticks_have_a_line_each() -> None:
    tick = "broker 1 leader throttle 10.0 MB/s → 12.5 MB/s: 12.2 MB/s is meant"
    text = shown(
        last_steering_ticks=[
            {"at_ms": 1_700_000_000_000, "rates": [[1, "leader", 10_000_000, 12_500_000]], "text": tick}
        ]
    )
    assert text.splitlines()[-2:] == ["Last steering ticks:", f"  2023-11-14 22:13:20 {tick}"]


def test_without_steering_ticks_there_is_no_heading() -> None:
    assert "steering" not in shown()


def test_journal_of_earlier_version_points_to_the_upgrade_steps() -> None:
    record = UnreadableRecord(b"memory|lab", 7, 8, "an earlier version of rheostat wrote it", is_older=True)
    [line] = [
        text for text in shown(unreadable_records=unreadable_texts([record])).splitlines() if "earlier version" in text
    ]
    assert line.startswith("The journal has records of an earlier version of rheostat: key b'memory|lab'")
    assert line.endswith("docs/how-to/upgrade.md.")
