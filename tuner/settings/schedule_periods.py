"""Finds the settings in force at a time: the settings of the file, changed by the rules of ``tuner.schedule`` that apply.

A *period* is a time in which the same rules apply. Only this module knows rules, cron expressions and time zones: the controllers
get the settings of a period, and use them like the settings of a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from tuner.settings.schedule import ScheduleRule
from tuner.settings.tuner import TunerSettings

# At most this many successive starts of one rule are followed while each begins as the last one ends. Then the period ends early,
# and the next period has the same rules.
_CHAINED_MAX = 500


@dataclass(frozen=True, slots=True)
class SettingsPeriod:
    """A time in which the same rules apply, and the settings in force in it.

    Attributes:
        settings: the settings of the file with the changes of the rules.
        rules: the names of the rules that apply, in the order of the file.
        from_ms, until_ms: epoch; ``until_ms`` None: the rules that apply do not change.
        next_rules: the names of the rules that apply after ``until_ms``.
    """

    settings: TunerSettings
    rules: tuple[str, ...]
    from_ms: int
    until_ms: int | None
    next_rules: tuple[str, ...]


class SettingsSchedule:
    """Returns the period of a time, and remembers the last one. Any thread may call it."""

    def __init__(self, settings: TunerSettings) -> None:
        """
        Args:
            settings: the settings of the file.
        """
        self.file_settings = settings
        self._period: SettingsPeriod | None = None

    def at(self, now_ms: int) -> SettingsPeriod:
        """Returns the period that ``now_ms`` (epoch) is in. If the clock is set back, the period of the earlier time applies."""
        period = self._period
        if period is None or now_ms < period.from_ms or (period.until_ms is not None and now_ms >= period.until_ms):
            period = self._period = find_period(self.file_settings, now_ms)
        return period


def find_period(settings: TunerSettings, now_ms: int) -> SettingsPeriod:
    """Returns the period of ``now_ms`` (epoch), from ``now_ms`` on."""
    rules = settings.schedule
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    applying, until = _rules_at(rules, now), _next_change(rules, now)
    return SettingsPeriod(
        settings=settings.with_rules(applying),
        rules=_names(applying),
        from_ms=now_ms,
        until_ms=None if until is None else _epoch_ms(until),
        next_rules=() if until is None else _names(_rules_at(rules, until)),
    )


def periods(settings: TunerSettings, from_ms: int, until_ms: int) -> Iterator[SettingsPeriod]:
    """Yields the periods from ``from_ms`` to ``until_ms`` (epoch), one after the other."""
    begins_ms: int | None = from_ms
    while begins_ms is not None and begins_ms < until_ms:
        period = find_period(settings, begins_ms)
        yield period
        begins_ms = period.until_ms


def _names(rules: Sequence[ScheduleRule]) -> tuple[str, ...]:
    return tuple(rule.name for rule in rules)


def _rules_at(rules: Sequence[ScheduleRule], now: datetime) -> tuple[ScheduleRule, ...]:
    return tuple(rule for rule in rules if _begin_of(rule, now) is not None)


def _begin_of(rule: ScheduleRule, now: datetime) -> datetime | None:
    """Returns the last start of the rule if it still applies; else None."""
    last = None
    for begins in rule.times_after(now - rule.duration):
        if begins > now:
            break
        last = begins
    return last


def _next_change(rules: Sequence[ScheduleRule], now: datetime) -> datetime | None:
    """Returns the next time at which a rule begins or ends; None: there is none."""
    changes = (_next_change_of(rule, now) for rule in rules)
    return min((change for change in changes if change is not None), default=None)


def _next_change_of(rule: ScheduleRule, now: datetime) -> datetime | None:
    begins = _begin_of(rule, now)
    if begins is None:
        return next(rule.times_after(now), None)
    ends = begins + rule.duration
    # A rule that begins again as it ends does not change anything.
    for begins_again in islice(rule.times_after(begins), _CHAINED_MAX):
        if begins_again > ends:
            break
        ends = begins_again + rule.duration
    return ends


def _epoch_ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
