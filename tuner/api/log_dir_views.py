"""Describes the copies between log directories for the API, the page and `rheostat status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streaming.shared.units import rate_text, size_text, span_text
from tuner.control.log_dir.progress import CopyProgress


def log_dir_json(
    broker: int,
    progress: CopyProgress,
    copied_bytes_per_s: float | None,
    rate_bytes_per_s: int | None,
    *,
    managed: bool,
    reason: str | None = None,
    text: str | None = None,
) -> dict[str, Any]:
    """Returns the copies of one broker as JSON values.

    Args:
        copied_bytes_per_s: the traffic that counts against the limit; None if not measured.
        rate_bytes_per_s: the limit; None if there is none.
        managed: whether rheostat has set the limit, and will restore the earlier limit.
        reason, text: the reason and text of the tuner's last decision; None if no tuner decides.
    """
    return {
        "broker": broker,
        "partitions": progress.partitions,
        "remaining_bytes": progress.remaining_bytes,
        "copied_bytes_per_s": copied_bytes_per_s,
        "rate_bytes_per_s": rate_bytes_per_s,
        "eta_s": progress.eta_s,
        "managed": managed,
        "reason": reason,
        "text": text,
    }


def log_dir_line(row: Mapping[str, Any]) -> str:
    """Returns a sentence about the copies of one broker: partitions, bytes left, rate, limit and end."""
    count, copied, rate, eta_s = row["partitions"], row["copied_bytes_per_s"], row["rate_bytes_per_s"], row["eta_s"]
    partitions = "1 partition" if count == 1 else f"{count} partitions"
    parts = [f"{size_text(row['remaining_bytes'])} remain"]
    if copied is not None:
        parts.append(
            rate_text(copied) + (" without a limit" if rate is None else f" of the limit of {rate_text(rate)}")
        )
    elif rate is not None:
        parts.append(f"the limit is {rate_text(rate)}")
    if eta_s is not None:
        parts.append(f"done in about {span_text(eta_s)}")
    return f"Broker {row['broker']} copies {partitions} between its log directories: {', '.join(parts)}."
