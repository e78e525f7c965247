"""Limits as they are given on the command line, over those of the settings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rheostat.errors import BadInputError
from tuner.core.partition_limits import PRESETS, PartitionLimits, limit_or_none
from tuner.planning.plan_json import TOPIC_NAME_RULE, is_topic_name

if TYPE_CHECKING:
    from tuner.settings.partition_limits import LimitsSettings

_BROKER_LIMIT = re.compile(r"(\d{1,9})=(\d{1,18})")


@dataclass(frozen=True, slots=True)
class LimitOverrides:
    """What was said; None: nothing."""

    preset: str | None = None
    broker_partitions_max: int | None = None
    partitions_max: int | None = None
    by_broker: Sequence[str] = ()  # "3=2000".

    def check(self) -> None:
        """
        Raises:
            BadInputError: naming the option; no settings are needed to see it.
        """
        _by_broker(self.by_broker)
        if self.preset is not None and self.preset not in PRESETS:
            raise BadInputError(f"--preset: expected one of {', '.join(PRESETS)}, found {self.preset!r}")

    def over(self, settings: LimitsSettings) -> PartitionLimits | None:
        """Number by number: an option's own, else its preset's, else what the settings say. None: nobody said anything.

        Raises:
            BadInputError: naming the option.
        """
        self.check()
        own, below = _by_broker(self.by_broker), settings.limits()
        said = (self.preset, self.broker_partitions_max, self.partitions_max)
        if not settings.are_set and not own and all(value is None for value in said):
            return None
        preset = PartitionLimits() if self.preset is None else PRESETS[self.preset].limits
        return PartitionLimits(
            _first(
                self.broker_partitions_max, limit_or_none(preset.broker_partitions_max), below.broker_partitions_max
            ),
            _first(self.partitions_max, preset.cluster_max, below.partitions_max),
            {**below.by_broker, **own},
        )


def _first(option: int | None, preset: int | None, settings: int) -> int:
    return next(value for value in (option, preset, settings) if value is not None)


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
    if not is_topic_name(name):
        raise BadInputError(f"--topic: expected {TOPIC_NAME_RULE}, found {name!r}")


def parse_topic_configs(texts: Sequence[str]) -> dict[str, str]:
    """
    Raises:
        BadInputError: naming the one that is none.
    """
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key.strip() or not equals:
            raise BadInputError(f"--topic-config: expected KEY=VALUE such as retention.ms=86400000, found {text!r}")
        if key.strip() in found:
            raise BadInputError(f"--topic-config: {key.strip()} is given twice")
        found[key.strip()] = value
    return found


def limit_text(limit: int) -> str:
    return "unlimited" if limit_or_none(limit) is None else str(limit)
