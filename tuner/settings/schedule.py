"""The section ``tuner.schedule`` of the settings file: rules that change the ceiling and the objective at given times.

A rule begins at each time of its cron expression, in its time zone, and lasts for a fixed time. In the hour that a change to
standard time repeats, a rule begins once; if a change to summer time skips a time, the rule begins at the next time that exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from streaming.shared.unit_settings import Rate, Seconds
from streaming.shared.units import span_text
from tuner.control.throttle.objective import Mode

_CRON_FIELDS = "minute, hour, day of month, month, day of week"
# A rule must be shorter than the gaps between its first times, up to this number. The gaps are computed in UTC, so clock changes do
# not alter them.
_TIMES_CHECKED = 500
_CHECKED_FROM, _CHECKED_UNTIL = datetime(2024, 1, 1, tzinfo=UTC), datetime(2060, 1, 1, tzinfo=UTC)
_DURATION_S_MAX = 366 * 86_400.0


class ScheduleRule(BaseModel):
    """Rules change the ceiling and the objective at given times.

    If several rules apply and set the same key, the last one in the list takes effect.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}$",
        description="name of the rule in decisions and in the status: letters, digits, spaces, `.`, `_` and `-`",
    )
    cron: str = Field(
        max_length=200,
        description=f"when the rule begins: cron expression with five fields ({_CRON_FIELDS}), such as `0 20 * * mon-fri`",
    )
    time_zone: str = Field(
        default="UTC",
        max_length=100,
        description="time zone in which rheostat reads `cron`: a name of the IANA database, such as Europe/Berlin",
    )
    duration_s: Seconds = Field(
        ge=60,
        le=_DURATION_S_MAX,
        description="how long the rule applies, in seconds from each start that `cron` gives; at most until its next start",
    )
    rate_bytes_per_s_max: Rate | None = Field(
        default=None,
        ge=1,
        description="the ceiling while the rule applies, in bytes/s; may be lower or higher than tuner.rate_bytes_per_s_max",
    )
    mode: Mode | None = Field(
        default=None, description="mode of the objective while the rule applies: fast, gentle, share, deadline"
    )
    tolerance: float | None = Field(
        default=None, ge=0.1, le=100, description="tolerance of the objective while the rule applies"
    )

    @field_validator("time_zone")
    @classmethod
    def _check_time_zone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"no time zone has the name {name!r}: give a name such as Europe/Berlin or UTC") from None
        return name

    @field_validator("cron")
    @classmethod
    def _check_cron(cls, expression: str) -> str:
        fields = len(expression.split())
        if fields != 5:
            raise ValueError(f"expected the five fields {_CRON_FIELDS}, found {fields}")
        try:
            next(CronSim(expression, _CHECKED_FROM))
        except StopIteration:
            raise ValueError(f"{expression!r} describes a day that never comes") from None
        except (CronSimError, AssertionError, ValueError) as error:
            # The library answers some unusual combinations with an assertion.
            detail = str(error) or "unknown form"
            raise ValueError(f"{expression!r} is not a cron expression ({_CRON_FIELDS}): {detail}") from None
        return expression

    @model_validator(mode="after")
    def _check_duration(self) -> ScheduleRule:
        shortest = min(self._gaps(), default=None)
        if shortest is not None and timedelta(seconds=self.duration_s) > shortest:
            raise ValueError(
                f"rule {self.name}: duration_s ({span_text(self.duration_s)}) is longer than the "
                f"{span_text(shortest.total_seconds())} between two starts of the rule ({self.cron}): give a shorter time"
            )
        return self

    @model_validator(mode="after")
    def _require_a_change(self) -> ScheduleRule:
        if self.rate_bytes_per_s_max is None and self.mode is None and self.tolerance is None:
            raise ValueError(f"rule {self.name} changes nothing: give rate_bytes_per_s_max, mode or tolerance")
        return self

    @property
    def duration(self) -> timedelta:
        return timedelta(seconds=self.duration_s)

    def times_after(self, moment: datetime) -> Iterator[datetime]:
        """Yields the times after ``moment`` at which the rule begins, in UTC, the earliest first."""
        last = moment
        for time in CronSim(self.cron, moment.astimezone(ZoneInfo(self.time_zone))):
            begins = time.astimezone(UTC)
            # Near a clock change the library may return a time that has passed, or the same time twice.
            if begins > last:
                last = begins
                yield begins

    def _gaps(self) -> Iterator[timedelta]:
        """Yields the durations between two successive starts of the rule, without clock changes."""
        last: datetime | None = None
        for _, time in zip(range(_TIMES_CHECKED), CronSim(self.cron, _CHECKED_FROM), strict=False):
            if last is not None:
                yield time - last
            if time > _CHECKED_UNTIL:
                return
            last = time
