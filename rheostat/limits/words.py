"""Limits as they are given on the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rheostat.errors import BadInputError
from tuner.model.partition_limits import PRESETS, UNLIMITED, PartitionLimits

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_BROKER_LIMIT = re.compile(r"(\d{1,9})=(\d{1,18})")


@dataclass(frozen=True, slots=True)
class Given:
    """What was said; None: nothing."""

    preset: str | None = None
    broker_partitions_max: int | None = None
    partitions_max: int | None = None
    by_broker: Sequence[str] = ()  # "3=2000".

    def limits(self) -> PartitionLimits | None:
        """None: none were given. A number beside a preset stands in place of the preset's.

        Raises:
            BadInputError: naming the option.
        """
        own = _by_broker(self.by_broker)
        if self.preset is None and self.broker_partitions_max is None and self.partitions_max is None and not own:
            return None
        below = PartitionLimits()
        if self.preset is not None:
            if self.preset not in PRESETS:
                raise BadInputError(f"--preset: expected one of {', '.join(PRESETS)}, found {self.preset!r}")
            below = PRESETS[self.preset].limits
        return PartitionLimits(
            below.broker_partitions_max if self.broker_partitions_max is None else self.broker_partitions_max,
            below.partitions_max if self.partitions_max is None else self.partitions_max,
            own,
        )


def _by_broker(texts: Sequence[str]) -> dict[int, int]:
    found: dict[int, int] = {}
    for text in texts:
        parts = _BROKER_LIMIT.fullmatch(text)
        if parts is None:
            raise BadInputError(f"--broker-limit: expected BROKER=PARTITIONS such as 3=2000, found {text!r}")
        if int(parts[1]) in found:
            raise BadInputError(f"--broker-limit: broker {parts[1]} is given twice")
        found[int(parts[1])] = int(parts[2])
    return found


def check_topic(name: str) -> None:
    """
    Raises:
        BadInputError: Kafka would not take it.
    """
    if _TOPIC.fullmatch(name) is None or name in (".", ".."):
        raise BadInputError(
            f"--topic: expected 1 to 249 letters, digits, '.', '_' or '-', and not only dots, found {name!r}"
        )


def limit_text(limit: int) -> str:
    return "unlimited" if limit >= UNLIMITED // 2 else str(limit)
