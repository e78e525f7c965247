"""The section ``tuner.cruise_control`` of the settings file: a Cruise Control whose moves the tuner throttles."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from streaming.shared.addresses import is_https_or_local
from streaming.shared.unit_settings import Rate, Seconds
from tuner.control.cruise_control.policy import MovementLimits
from tuner.core.throttle_limits import MB
from tuner.settings.external import Url, refuse_login


class CruiseControlSettings(BaseModel):
    """The REST API of Cruise Control: the tuner reads which moves run, and may set how many partitions move at the same time."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    url: Url = Field(description="address of the REST API, such as http://cruise-control:9090/kafkacruisecontrol")
    concurrency: Literal["watch", "act"] = Field(
        default="watch",
        description="watch: the tuner only reports how many partitions Cruise Control should move at the same time; act: the "
        "tuner sets this number while Cruise Control moves replicas",
    )
    rate_per_movement_bytes_per_s: Rate = Field(
        default=10 * MB,
        ge=1,
        description="the part of a throttle that each moving partition should get, in bytes/s. The tuner divides the lowest "
        "throttle of the move by this rate; the result is the number of partitions that a broker should move at the same time",
    )
    movements_per_broker_min: int = Field(
        default=1, ge=1, le=1000, description="lowest number of partitions that a broker moves at the same time"
    )
    movements_per_broker_max: int = Field(
        default=10, ge=1, le=1000, description="highest number of partitions that a broker moves at the same time"
    )
    interval_s: Seconds = Field(default=10.0, ge=1, le=3600, description="seconds between two requests")
    timeout_s: Seconds = Field(
        default=5.0, ge=0.1, le=30, description="longest time to wait for the answer to a request, in seconds"
    )
    user: str | None = Field(default=None, description="user name, if Cruise Control requires a login (HTTP Basic)")
    password_file: str | None = Field(
        default=None,
        description="file whose only line is the password of `user`; the tuner reads the file for each request",
    )
    cafile: str | None = Field(
        default=None,
        description="PEM file with the certificate authorities (CAs) of Cruise Control; without it, the CAs of the operating "
        "system",
    )

    @model_validator(mode="after")
    def _check(self) -> CruiseControlSettings:
        refuse_login("cruise_control", self.url)
        if (self.user is None) != (self.password_file is None):
            raise ValueError("cruise_control: user and password_file: set both, or neither")
        if self.user is not None and not is_https_or_local(self.url):
            raise ValueError(
                "cruise_control: a password needs a url that begins with https:// (http:// only for a host like 127.0.0.1)"
            )
        if self.movements_per_broker_min > self.movements_per_broker_max:
            raise ValueError("cruise_control: movements_per_broker_min is above movements_per_broker_max")
        return self

    def limits(self, external_change_hold_s: float) -> MovementLimits:
        """Returns the limits of the decisions.

        Args:
            external_change_hold_s: how long a number that another tool has changed is left alone.
        """
        return MovementLimits(
            acts=self.concurrency == "act",
            rate_per_movement_bytes_per_s=self.rate_per_movement_bytes_per_s,
            movements_min=self.movements_per_broker_min,
            movements_max=self.movements_per_broker_max,
            external_change_hold_s=external_change_hold_s,
        )
