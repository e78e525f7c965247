"""Parses the limits on the command line, which override the limits in the settings file."""

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
    """Limits from the command line. A limit that was not given is None or empty.

    Attributes:
        by_broker: exceptions for single brokers, as texts such as "3=2000".
    """

    preset: str | None = None
    broker_partitions_max: int | None = None
    partitions_max: int | None = None
    by_broker: Sequence[str] = ()

    def check(self) -> None:
        """Checks the options without the settings, before slow work.

        Raises:
            BadInputError: the message names the option.
        """
        _parse_broker_limits(self.by_broker)
        if self.preset is not None and self.preset not in PRESETS:
            raise BadInputError(f"--preset: expected one of {', '.join(PRESETS)}, found {self.preset!r}")

    def apply_to(self, settings: LimitsSettings) -> PartitionLimits | None:
        """Returns the limits that apply; None if neither options nor settings set any.

        Each number comes from its own option, else from the preset on the command line, else from the settings.

        Raises:
            BadInputError: the message names the option.
        """
        self.check()
        by_broker, base = _parse_broker_limits(self.by_broker), settings.limits()
        options = (self.preset, self.broker_partitions_max, self.partitions_max)
        if not settings.are_set and not by_broker and all(value is None for value in options):
            return None
        preset = PartitionLimits() if self.preset is None else PRESETS[self.preset].limits
        broker_max = limit_or_none(preset.broker_partitions_max)
        return PartitionLimits(
            broker_partitions_max=_first_set(self.broker_partitions_max, broker_max, base.broker_partitions_max),
            partitions_max=_first_set(self.partitions_max, preset.cluster_max, base.partitions_max),
            by_broker={**base.by_broker, **by_broker},
        )


def _first_set(option: int | None, preset: int | None, settings: int) -> int:
    return next(value for value in (option, preset, settings) if value is not None)


def _parse_broker_limits(texts: Sequence[str]) -> dict[int, int]:
    limits: dict[int, int] = {}
    for text in texts:
        match = _BROKER_LIMIT.fullmatch(text)
        if match is None:
            raise BadInputError(f"--broker-limit: expected BROKER=PARTITIONS such as 3=2000, found {text!r}")
        broker, limit = int(match[1]), int(match[2])
        if broker in limits:
            raise BadInputError(f"--broker-limit: broker {match[1]} is given twice")
        limits[broker] = limit
    return limits


def check_topic(name: str, option: str = "--topic") -> None:
    """Checks the name of a topic.

    Args:
        option: the option that gave the name, for the message.

    Raises:
        BadInputError: Kafka would not accept the name.
    """
    if not is_topic_name(name):
        raise BadInputError(f"{option}: expected {TOPIC_NAME_RULE}, found {name!r}")


def parse_topic_configs(texts: Sequence[str]) -> dict[str, str]:
    """Returns the settings of a topic from texts such as "retention.ms=60000".

    Raises:
        BadInputError: a text has no key or no value, or a key is given twice.
    """
    configs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key.strip() or not equals:
            raise BadInputError(f"--topic-config: expected KEY=VALUE such as retention.ms=86400000, found {text!r}")
        if key.strip() in configs:
            raise BadInputError(f"--topic-config: {key.strip()} is given twice")
        configs[key.strip()] = value
    return configs


def limit_text(limit: int) -> str:
    return "unlimited" if limit_or_none(limit) is None else str(limit)
