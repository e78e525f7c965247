"""The schema of a scenario's disturbances; the key ``what`` names the kind of each disturbance."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rheostat.simulate.schema_types import BrokerIds, Moment, Rate, SchemaModel, TimeRange


class SlowLink(TimeRange):
    what: Literal["slow_link"]
    factor: float = Field(gt=0, le=1, description="the share of their links that these brokers can still use")
    brokers: BrokerIds = Field(description="the brokers with slow links")


class BrokerDown(TimeRange):
    what: Literal["broker_down"]
    broker: int = Field(description="the broker that is down")


class NoSignals(TimeRange):
    what: Literal["no_signals"]
    brokers: BrokerIds | None = Field(default=None, description="the brokers whose signals are lost; default: all")


class ControllerBusy(TimeRange):
    what: Literal["controller_busy"]
    operations_per_s: float = Field(gt=0, description="operations that other clients send to the controller")


class LeaderChange(SchemaModel):
    what: Literal["leader_change"]
    at: Moment = Field(description="the time of the change")
    topic: str = Field(description="the topic whose leader changes")
    partition: int = Field(ge=0, description="the partition whose leader changes")
    to: int = Field(description="the broker that becomes the leader, if it is in sync")


class OperatorSets(SchemaModel):
    what: Literal["operator_sets"]
    at: Moment = Field(description="the time of the change")
    broker: int = Field(description="the broker whose throttle is set")
    side: Literal["leader", "follower"] = Field(description="which throttle: leader or follower")
    rate: Rate | None = Field(description="the throttle that an operator sets; null removes it")


Disturbance = Annotated[
    SlowLink | BrokerDown | NoSignals | ControllerBusy | LeaderChange | OperatorSets, Field(discriminator="what")
]
