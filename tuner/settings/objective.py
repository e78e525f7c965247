"""The keys ``tuner.objective`` and ``tuner.capacity`` of the settings file: the clients' latency, and the bandwidth of brokers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, field_validator, model_validator

from streaming.shared.unit_settings import Milliseconds, Rate
from tuner.control.throttle.objective import Capacity, Mode, Objective


def none_if_auto(value: object) -> object:
    return None if value == "auto" else value


class ObjectiveSettings(BaseModel):
    """The highest client latency, and the speed of moves. ``objective: off``: the tuner only raises throttles of stalled moves."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    latency_ms: Milliseconds | None = Field(
        default=None,
        gt=0,
        description="highest p99 of the time of produce requests, as the brokers report it, in ms. `auto`, or no value: for each "
        "broker the p99 of its clients while nothing moves, plus tolerance",
    )
    tolerance: float = Field(
        default=0.5,
        ge=0.1,
        le=100,
        description="only with `latency_ms: auto`: how much longer the p99 may be during a move, as a share of the p99 without a "
        "move; 0.5 allows 50 % more. At least 5 ms more are always allowed",
    )
    mode: Mode = Field(
        default=Mode.FAST,
        description="speed of moves; fast: as fast as the objective allows; deadline: just fast enough to end at finish_at; "
        "share: moves use at most the share share_max of each broker's capacity; gentle: moves use the share gentle_ratio of "
        "the rate that the objective allows",
    )
    finish_at: AwareDatetime | None = Field(
        default=None,
        description="for the mode `deadline`: the time at which moves have to end, for example 2026-01-31T06:00:00Z",
    )
    share_max: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="for the mode `share`: the highest share of a broker's capacity that moves may use; 0.25 is a quarter",
    )
    gentle_ratio: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="for the mode `gentle`: moves use this share of the rate that the objective allows",
    )

    @field_validator("latency_ms", mode="before")
    @classmethod
    def _read_latency(cls, value: object) -> object:
        return none_if_auto(value)

    @model_validator(mode="after")
    def _check_mode(self) -> ObjectiveSettings:
        if self.mode is Mode.DEADLINE and self.finish_at is None:
            raise ValueError("mode: deadline needs finish_at, such as 2026-01-31T06:00:00Z")
        if self.mode is Mode.SHARE and self.share_max is None:
            raise ValueError("mode: share needs share_max, such as 0.25")
        if self.mode is not Mode.DEADLINE and self.finish_at is not None:
            raise ValueError(f"finish_at applies only with mode: deadline, and the mode is {self.mode.value}")
        if self.mode is not Mode.SHARE and self.share_max is not None:
            raise ValueError(f"share_max applies only with mode: share, and the mode is {self.mode.value}")
        if self.latency_ms is not None and "tolerance" in self.model_fields_set:
            raise ValueError(
                "tolerance applies only with latency_ms: auto, and latency_ms has a value: remove tolerance or latency_ms"
            )
        return self

    def with_changes(self, mode: Mode | None, tolerance: float | None) -> ObjectiveSettings:
        """Returns the objective with another mode or tolerance; None: unchanged. The keys of other modes are left out.

        Raises:
            ValidationError: the new mode needs a key that is not set, or there is no tolerance as ``latency_ms`` is set.
        """
        values: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        if mode is not None:
            values["mode"] = mode
            if mode is not Mode.DEADLINE:
                values.pop("finish_at", None)
            if mode is not Mode.SHARE:
                values.pop("share_max", None)
        if tolerance is not None:
            values["tolerance"] = tolerance
        return ObjectiveSettings(**values)

    def text(self) -> str:
        """Returns the mode and the latency limit as text, such as ``mode fast, tolerance 0.5``."""
        latency = f"tolerance {self.tolerance:g}" if self.latency_ms is None else f"latency {self.latency_ms:g} ms"
        return f"mode {self.mode.value}, {latency}"

    def for_control_law(self) -> Objective:
        """Returns the objective in the form that the control law uses."""
        finish_at_ms = _epoch_ms(self.finish_at) if self.finish_at is not None else None
        return Objective(self.latency_ms, self.mode, finish_at_ms, self.share_max, self.gentle_ratio, self.tolerance)


class BrokerCapacity(BaseModel):
    """The bandwidth of one broker."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    in_bytes_per_s: Rate = Field(
        gt=0,
        description="highest rate at which a broker can receive data, in bytes/s: the rate of its network link, or of its disks if "
        "they are slower",
    )
    out_bytes_per_s: Rate = Field(gt=0, description="highest rate at which a broker can send data, in bytes/s")


class CapacitySettings(BrokerCapacity):
    """Bandwidth of each broker, for clients and replication together. `auto`: the tuner learns it from client latency."""

    brokers: dict[Annotated[int, Field(ge=0)], BrokerCapacity] = Field(
        default_factory=dict,
        description="broker id → in_bytes_per_s and out_bytes_per_s of a broker with another capacity",
    )

    def of(self, broker: int) -> Capacity:
        """Returns the capacity of a broker."""
        capacity = self.brokers.get(broker, self)
        return Capacity(capacity.in_bytes_per_s, capacity.out_bytes_per_s)

    def default(self) -> Capacity:
        """Returns the capacity of the brokers that ``brokers`` does not name."""
        return Capacity(self.in_bytes_per_s, self.out_bytes_per_s)

    def by_broker(self) -> dict[int, Capacity]:
        """Returns the capacity of each broker that ``brokers`` names."""
        return {broker: self.of(broker) for broker in self.brokers}


def _epoch_ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
