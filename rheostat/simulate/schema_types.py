"""Value types of the scenario schema: amounts with units, times, and time ranges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from streaming.shared import units


def _amount(parse: Callable[[str], float]) -> BeforeValidator:
    return BeforeValidator(lambda value: value if value is None else parse(str(value)))


def _moment(text: str) -> float:
    return 0.0 if text.strip() in ("0", "0s") else units.parse_span(text)


Rate = Annotated[float, _amount(units.positive(units.parse_rate))]
RateOrNone = Annotated[float, _amount(units.parse_rate)]  # 0 is allowed.
Size = Annotated[float, _amount(units.parse_bytes)]
Span = Annotated[float, _amount(units.parse_span)]
Moment = Annotated[float, _amount(_moment)]
Share = Annotated[float, _amount(units.parse_share)]
PositiveShare = Annotated[float, _amount(units.positive(units.parse_share))]
BrokerIds = Annotated[tuple[int, ...], Field(min_length=1)]


class SchemaModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class TimeRange(SchemaModel):
    """A time range of a scenario."""

    at: Moment = Field(description="the start, as time since the start of the simulation, such as 2min")
    until: Span = Field(description="the end, as time since the start of the simulation")

    @model_validator(mode="after")
    def _check_order(self) -> TimeRange:
        if self.until <= self.at:
            raise ValueError(
                f"expected `until` to be later than `at`, found {units.span_text(self.until)} and {units.span_text(self.at)}"
            )
        return self
