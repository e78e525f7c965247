"""The section ``tuner`` of the settings file: limits, and what the tuner may do. Larger parts have modules of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator, model_validator

from streaming.shared.unit_settings import Rate, Seconds
from streaming.shared.units import rate_text
from tuner.control.mutation_quota.model import MutationPolicy
from tuner.control.throttle.objective import ControlLimits, Mode, Objective
from tuner.core.partition_limits import PartitionLimits
from tuner.core.throttle_limits import MB, ThrottleLimits
from tuner.settings.cruise_control import CruiseControlSettings
from tuner.settings.external import VetoSettings, WebhookSettings
from tuner.settings.http import HttpSettings
from tuner.settings.metrics import MetricsSettings
from tuner.settings.mutation_quota import MutationQuotaSettings
from tuner.settings.objective import CapacitySettings, ObjectiveSettings, none_if_auto
from tuner.settings.reassignment import ReassignSettings
from tuner.settings.schedule import ScheduleRule


class TunerSettings(BaseModel):
    """Limits and tasks of the tuner."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rate_bytes_per_s_max: Rate = Field(
        ge=1,
        description="the ceiling, in bytes/s: the tuner raises no leader or follower throttle above this rate",
    )
    rate_bytes_per_s_min: Rate = Field(
        default=5 * MB,
        ge=1,
        description="lowest throttle that the tuner sets, in bytes/s. At low rates a copy alternates between bursts and "
        "pauses: Kafka never interrupts a fetch, and after a large one it waits until the mean rate is below the throttle",
    )
    dry_run: bool = Field(
        default=True,
        description="true: the tuner makes decisions and records them, but changes nothing in the cluster; false: the tuner "
        "also changes the cluster. If the key is missing, it is true",
    )
    cycle_s: Seconds = Field(
        default=5.0,
        ge=1,
        le=60,
        description="seconds between two cycles; in each cycle the tuner reads the newest signals and decides",
    )
    signal_age_s_max: Seconds = Field(
        default=15.0,
        gt=0,
        description="highest age of a signal, in seconds; the tuner does not raise a throttle on the basis of an older signal",
    )
    external_change_hold_s: Seconds = Field(
        default=3600.0,
        ge=0,
        le=1e9,
        description="seconds for which the tuner leaves a throttle alone after an operator or another tool has changed it",
    )
    clear_finished: bool = Field(
        default=True,
        description="true: when a move ends, the tuner removes the throttle that was set for this move, as "
        "kafka-reassign-partitions --verify does; if the throttle also limits other replicas, the tuner only restores its "
        "earlier rate. false: the tuner only restores the rates that it has changed",
    )
    existing_throttles: Literal["adopt", "preserve"] = Field(
        default="adopt",
        description="what the tuner does with throttles that were set before a move; adopt: it changes them during the move "
        "and restores them afterwards; preserve: it leaves them alone",
    )
    first_topics: tuple[Annotated[str, Field(min_length=1, max_length=249)], ...] = Field(
        default=(),
        description="topics whose partitions move and recover before the partitions of other topics, in the order of this "
        "list; a name may contain *, such as payments-*. Partitions that have out-of-sync replicas, and at most "
        "min.insync.replicas in-sync replicas, come even before these topics",
    )
    unthrottled_moves: Literal["throttle", "leave"] | None = Field(
        default=None,
        description="what the tuner does with a move that another tool has started without a throttle. throttle: it sets a "
        "throttle, at first the lowest rate at which the move ends, and removes the throttle at the end of the move. leave: it "
        "sets no throttle. Default: `throttle` if the settings have tuner.objective or tuner.capacity, else `leave`. The tuner "
        "always throttles plans of `rheostat reassign`",
    )
    recovery: Literal["off", "watch", "act"] = Field(
        default="watch",
        description="what the tuner does with a replica that catches up after its broker was offline or has lost its disk. "
        "watch: it reports what it would do, and writes nothing. act: it throttles this replica like a replica that moves, "
        "except if its partition has fewer in-sync replicas than min.insync.replicas; `act` needs an objective. off: it ignores "
        "the replica",
    )
    leadership: Literal["off", "watch", "act"] = Field(
        default="watch",
        description="what the tuner does if auto.leader.rebalance.enable is false and a partition has another leader than its "
        "preferred replica. watch: it reports what it would do. act: when a broker has caught up, the tuner elects the "
        "preferred leaders on it, one group of partitions after another, as long as the broker's produce latency allows it. "
        "off: it ignores the partition",
    )
    config_writes_per_s_max: float = Field(
        default=50.0,
        ge=1,
        description="highest number of writes of throttles per second, for all brokers together, while the tuner changes "
        "rates. With many brokers the tuner therefore changes rates in larger steps. It writes decreases first",
    )
    objective: ObjectiveSettings | None = Field(
        default_factory=ObjectiveSettings,
        description="throttles continuously follow the clients' latency; off: only stalled moves are rescued",
    )
    capacity: CapacitySettings | None = Field(
        default=None,
        description="bandwidth of the brokers; auto: it is learned from the clients' latency, up to the speed of the link if the "
        "metrics have it",
    )
    schedule: tuple[ScheduleRule, ...] = Field(
        default=(),
        max_length=50,
        description="rules that change the ceiling, the mode and the tolerance of the objective at given times",
    )
    mutation_quota: MutationQuotaSettings | None = Field(
        default=None,
        description="sets quotas for creating and deleting topics (KIP-599) by the controller's load",
    )
    reassign: ReassignSettings = Field(
        default_factory=ReassignSettings, description="limits for executing plans of `rheostat reassign` (KIP-435)"
    )
    vetoes: tuple[VetoSettings, ...] = Field(
        default=(),
        max_length=16,
        description="other services that the tuner asks, and that can keep throttles from rising, lower them, or hold the "
        "steps of plans",
    )
    cruise_control: CruiseControlSettings | None = Field(
        default=None, description="reads what Cruise Control executes, and adjusts its concurrency to the throttles"
    )
    webhooks: tuple[WebhookSettings, ...] = Field(
        default=(), max_length=16, description="services to which the tuner sends events about moves"
    )
    metrics: MetricsSettings = Field(default_factory=MetricsSettings, description="optional metrics")
    http: HttpSettings = Field(default_factory=HttpSettings, description="the tuner's HTTP endpoint")

    # The rules that apply, and the ceiling without them; ``with_rules`` sets both.
    _rules: tuple[ScheduleRule, ...] = PrivateAttr(default=())
    _ceiling_without_rules: float | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _check_min_below_max(self) -> TunerSettings:
        if self.rate_bytes_per_s_min > self.rate_bytes_per_s_max:
            raise ValueError(
                f"rate_bytes_per_s_min ({self.rate_bytes_per_s_min:.0f}) is above rate_bytes_per_s_max "
                f"({self.rate_bytes_per_s_max:.0f})"
            )
        return self

    @field_validator("objective", mode="before")
    @classmethod
    def _read_objective(cls, value: object) -> object:
        """``off`` is False in YAML 1.1, and a string in an environment variable. A key without a value is the default."""
        if value is False or (isinstance(value, str) and value.lower() in ("off", "false", "no")):
            return None
        return {} if value is None or value == "auto" else value

    @field_validator("capacity", mode="before")
    @classmethod
    def _read_capacity(cls, value: object) -> object:
        return none_if_auto(value)

    @model_validator(mode="after")
    def _check_objective_and_capacity(self) -> TunerSettings:
        if self.capacity is not None and self.objective is None:
            raise ValueError(
                "capacity has an effect only with an objective: remove capacity, or remove the line objective: off"
            )
        if self.objective is not None and self.objective.mode is Mode.SHARE and self.capacity is None:
            raise ValueError(
                "mode: share needs tuner.capacity, because share_max is a share of its in_bytes_per_s and out_bytes_per_s"
            )
        if self.unthrottled_moves == "throttle" and self.objective is None:
            raise ValueError(
                "unthrottled_moves: throttle needs an objective, by which the tuner chooses the rate: remove the line "
                "objective: off, or remove unthrottled_moves"
            )
        if self.recovery == "act" and self.objective is None:
            raise ValueError(
                "recovery: act needs an objective, by which the tuner chooses the rate: remove the line objective: off, or set "
                "recovery: watch"
            )
        return self

    @model_validator(mode="after")
    def _check_schedule(self) -> TunerSettings:
        names = [rule.name for rule in self.schedule]
        if duplicates := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(
                f"schedule has several rules with the name {duplicates[0]}: give each rule a name of its own"
            )
        for rule in self.schedule:
            self._check_rule(rule)
        return self

    @model_validator(mode="after")
    def _check_external_names(self) -> TunerSettings:
        for section, entries in (("vetoes", self.vetoes), ("webhooks", self.webhooks)):
            names = [entry.name for entry in entries]
            if duplicates := sorted({name for name in names if names.count(name) > 1}):
                raise ValueError(
                    f"{section} has several entries with the name {duplicates[0]}: give each entry a name of its own"
                )
        return self

    def _check_rule(self, rule: ScheduleRule) -> None:
        ceiling = rule.rate_bytes_per_s_max
        if ceiling is not None and ceiling < self.rate_bytes_per_s_min:
            raise ValueError(
                f"schedule, rule {rule.name}: rate_bytes_per_s_max ({rate_text(ceiling)}) is below tuner.rate_bytes_per_s_min "
                f"({rate_text(self.rate_bytes_per_s_min)}): raise the first, or lower the second"
            )
        if rule.mode is None and rule.tolerance is None:
            return
        if self.objective is None:
            raise ValueError(
                f"schedule, rule {rule.name}: mode and tolerance change the objective, but the settings have objective: off. "
                "Remove mode and tolerance from the rule, or remove objective: off"
            )
        try:
            self.objective.with_changes(rule.mode, rule.tolerance)
        except ValidationError as error:
            why = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise ValueError(f"schedule, rule {rule.name}: {why}") from None

    def with_rules(self, rules: Sequence[ScheduleRule]) -> TunerSettings:
        """Returns the settings while these rules of the schedule apply. If several set the same key, the last one applies."""
        if not rules:
            return self
        changes: dict[str, Any] = {}
        for rule in rules:
            if rule.rate_bytes_per_s_max is not None:
                changes["rate_bytes_per_s_max"] = rule.rate_bytes_per_s_max
            if self.objective is not None and (rule.mode is not None or rule.tolerance is not None):
                objective = changes.get("objective", self.objective)
                changes["objective"] = objective.with_changes(rule.mode, rule.tolerance)
                # Its default depends on whether the file has an objective; a rule does not change that.
                changes["unthrottled_moves"] = "throttle" if self._throttles_unthrottled() else "leave"
        settings = self.model_copy(update=changes)
        settings._rules, settings._ceiling_without_rules = tuple(rules), self.rate_bytes_per_s_max
        return settings

    @property
    def highest_ceiling_bytes_per_s(self) -> float:
        """The highest rate that this ceiling or a rule of the schedule permits at any time."""
        ceilings = [rule.rate_bytes_per_s_max for rule in self.schedule if rule.rate_bytes_per_s_max is not None]
        return max(self.rate_bytes_per_s_max, self._ceiling_without_rules or 0.0, *ceilings)

    def policy_text(self) -> str:
        """Returns the ceiling and the objective in force, such as ``ceiling 60 MB/s, mode fast, tolerance 0.5``."""
        objective = "no objective" if self.objective is None else self.objective.text()
        return f"ceiling {rate_text(self.rate_bytes_per_s_max)}, {objective}"

    @property
    def dry_run_by_default(self) -> bool:
        """Whether the tuner does not act because ``dry_run`` is missing in the settings."""
        return self.dry_run and "dry_run" not in self.model_fields_set

    def law_limits(self) -> ControlLimits:
        """Returns the limits of the control law."""
        return ControlLimits(
            rate_bytes_per_s_min=self.rate_bytes_per_s_min, rate_bytes_per_s_max=self.rate_bytes_per_s_max
        )

    def effective_leader_ratio(self) -> float:
        """Returns the share of the ceiling that leaders get while a plan still has steps to begin.

        The share is 1 in the modes deadline and gentle, because they leave headroom to clients in another way.
        """
        objective = self.control_objective()
        leaves_headroom = objective is not None and not objective.uses_all_headroom
        return 1.0 if leaves_headroom else self.law_limits().plan_leader_ratio

    def control_objective(self) -> Objective | None:
        """Returns the objective of the control law; None: none is configured, so the tuner only rescues stalled moves."""
        return self.objective.for_control_law() if self.objective is not None else None

    def mutation_policy(self, partition_limits: PartitionLimits | None = None) -> MutationPolicy | None:
        """Returns how mutation quotas are shared; None: they are not configured.

        Args:
            partition_limits: the partition limits (KIP-578) of the settings, which count replicas.
        """
        if self.mutation_quota is None:
            return None
        replicas_max = None if partition_limits is None else partition_limits.cluster_max
        return self.mutation_quota.policy(self.external_change_hold_s, replicas_max)

    def _throttles_unthrottled(self) -> bool:
        if self.unthrottled_moves is not None:
            return self.unthrottled_moves == "throttle"
        return not self.model_fields_set.isdisjoint(("objective", "capacity"))

    def limits(self) -> ThrottleLimits:
        """Returns the limits of the throttle controller."""
        objective = self.control_objective()
        return ThrottleLimits(
            rate_bytes_per_s_max=self.rate_bytes_per_s_max,
            rate_bytes_per_s_min=self.rate_bytes_per_s_min,
            signal_age_s_max=self.signal_age_s_max,
            external_change_hold_s=self.external_change_hold_s,
            clears_finished=self.clear_finished,
            closed_loop=objective is not None,
            throttles_all_moves=objective is not None and self._throttles_unthrottled(),
            throttles_recoveries=self.recovery == "act",
            reports_recoveries=self.recovery == "watch",
            adopts_existing=self.existing_throttles == "adopt",
            finish_at_ms=objective.finish_at_ms if objective is not None else None,
            schedule_rules=", ".join(rule.name for rule in self._rules),
            schedule_text=self.policy_text() if self.schedule else "",
            order_rate_bytes_per_s_max=self.highest_ceiling_bytes_per_s if self.schedule else None,
        )
