"""The schema of a scenario's disturbances; the key ``what`` names the kind of each."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rheostat.simulate.schema_types import BrokerIds, Moment, Rate, SchemaModel, TimeRange


class SlowLink(TimeRange):
    what: Literal["slow_link"]
    factor: float = Field(gt=0, le=1, description="the share of their links that these brokers have left")
    brokers: BrokerIds = Field(description="which brokers")


class BrokerDown(TimeRange):
    what: Literal["broker_down"]
    broker: int = Field(description="which broker")


class NoSignals(TimeRange):
    what: Literal["no_signals"]
    brokers: BrokerIds | None = Field(default=None, description="the brokers whose signals are lost; without it all")


class ControllerBusy(TimeRange):
    what: Literal["controller_busy"]
    operations_per_s: float = Field(gt=0, description="operations that other clients send to the controller")


class LeaderChange(SchemaModel):
    what: Literal["leader_change"]
    at: Moment = Field(description="when")
    topic: str = Field(description="of which topic")
    partition: int = Field(ge=0, description="of which partition")
    to: int = Field(description="the broker that leads from then on, if it is in sync")


class OperatorSets(SchemaModel):
    what: Literal["operator_sets"]
    at: Moment = Field(description="when")
    broker: int = Field(description="on which broker")
    side: Literal["leader", "follower"] = Field(description="which throttle: leader or follower")
    rate: Rate | None = Field(description="the throttle that an operator sets; null removes it")


Disturbance = Annotated[
    SlowLink | BrokerDown | NoSignals | ControllerBusy | LeaderChange | OperatorSets, Field(discriminator="what")
]
