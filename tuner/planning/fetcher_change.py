"""Plans a change of num.replica.fetchers: where the setting is written, and through which intermediate values.

The setting is changed where it was set:

- Brokers that inherit the value get the new value through the cluster's default. A broker that joins later then inherits it too.
- A broker on which the value was set gets the new value on the broker.
- A broker whose value differs from the common value is left alone.

Invariant: each value is at most double and at least half of the previous value, because Kafka accepts no other change.

Terms:
    target        where a value is written: a broker id, or ``CLUSTER_DEFAULT``.
    common value  the value that most brokers have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tuner.core.fetchers import resize_steps

CLUSTER_DEFAULT = -1

ConfigTarget = int


@dataclass(frozen=True, slots=True)
class FetcherSetting:
    """The setting in force on one broker.

    Attributes:
        is_set_on_broker: set on this broker at runtime; False: from the cluster's default, the broker's file or Kafka's default.
    """

    value: int
    is_set_on_broker: bool = False


@dataclass(frozen=True, slots=True)
class ResizePlan:
    """A change of the setting.

    Attributes:
        current: the common value.
        desired: the value to reach.
        brokers: the brokers that change.
        targets: the earlier value of each target; None: the target had no value, so a rollback removes the value again.
        left_alone: brokers with a different value of their own.
    """

    current: int
    desired: int
    brokers: tuple[int, ...]
    targets: Mapping[ConfigTarget, int | None]
    left_alone: Mapping[int, int]

    @property
    def steps(self) -> tuple[int, ...]:
        """The values to set one after the other; none if the desired value is set already."""
        return resize_steps(self.current, self.desired)

    def rollback_steps(self, reached: int) -> tuple[int, ...]:
        """Returns the values that lead back from ``reached`` to the value before the change."""
        return resize_steps(reached, self.current)


def plan_resize(settings: Mapping[int, FetcherSetting], default: int | None, desired: int) -> ResizePlan:
    """Returns the change that brings the common value to ``desired``.

    Args:
        settings: the setting of each broker that is alive; at least one.
        default: the cluster's default, if one was set at runtime.
    """
    counts = Counter(setting.value for setting in settings.values())
    highest_count = max(counts.values())
    current = min(value for value, count in counts.items() if count == highest_count)
    changing = tuple(sorted(b for b, setting in settings.items() if setting.value == current))
    left_alone = {
        b: setting.value for b, setting in sorted(settings.items()) if setting.value not in (current, desired)
    }
    inherited_values = {setting.value for setting in settings.values() if not setting.is_set_on_broker}
    own_values = {b: current for b in changing if settings[b].is_set_on_broker}
    if inherited_values <= {current}:
        targets: dict[ConfigTarget, int | None] = {CLUSTER_DEFAULT: default} if inherited_values else {}
        return ResizePlan(current, desired, changing, {**targets, **own_values}, left_alone)
    # Brokers inherit different values from their files. The cluster's default would also change the brokers that must be left
    # alone, so the value is written on each broker that changes.
    return ResizePlan(current, desired, changing, {b: own_values.get(b) for b in changing}, left_alone)
