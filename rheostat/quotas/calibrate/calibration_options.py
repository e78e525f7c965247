"""The options of `rheostat quotas calibrate`, and the objective that follows from them and from the settings. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rheostat.errors import BadInputError
from streaming.shared.units import span_text
from tuner.core.controller import ControllerObjective

DURATION_S_MAX = 3600.0
_PARTITIONS_MIN = 40  # With fewer partitions, a step at the lowest rate would be too short.
# The limit without tuner.mutation_quota: on KRaft, an overload first shows as late brokers.
_APPLY_LAG_MS_MAX = 1_000.0


@dataclass(frozen=True, slots=True)
class CalibrationOptions:
    """The options of the command. An option that is absent is None.

    Attributes:
        latency_ms_max: the highest p90 of the probe.
    """

    for_s: float
    partitions_max: int
    sizes: tuple[int, ...]
    replication_factor: int | None
    latency_ms_max: float | None
    tenants: int

    @property
    def partitions_min(self) -> int:
        """The fewest partitions that a calibration needs: each step has several topics."""
        return max(_PARTITIONS_MIN, 4 * max(self.sizes))

    def check(self) -> None:
        """Checks the options.

        Raises:
            BadInputError: an option has a bad value; the message names it.
        """
        if self.for_s > DURATION_S_MAX:
            raise BadInputError(f"--for: expected at most {span_text(DURATION_S_MAX)}, found {span_text(self.for_s)}")
        if self.partitions_max < self.partitions_min:
            raise BadInputError(
                f"--partitions-max: expected at least {self.partitions_min}, found {self.partitions_max}: each step creates "
                "several "
                "topics"
            )

    def replicas(self, brokers: int) -> int:
        """Returns the replication factor of the calibration's topics.

        Raises:
            BadInputError: there are fewer brokers than replicas.
        """
        factor = self.replication_factor or min(3, brokers)
        if factor > brokers:
            raise BadInputError(f"--replication: {factor} replicas need {factor} brokers, and {brokers} are alive")
        return factor

    def objective(self, configured: ControllerObjective | None) -> ControllerObjective:
        """Returns the objective. If it has no limit for the probe, the calibration sets one from the latency without load.

        Args:
            configured: tuner.mutation_quota.objective; None if the section is absent.
        """
        objective = configured or ControllerObjective(apply_lag_ms_max=_APPLY_LAG_MS_MAX)
        if self.latency_ms_max is not None:
            objective = replace(objective, create_probe_p90_ms_max=self.latency_ms_max)
        # The forwarding ratio needs the signals of several nodes over 30 s.
        return replace(objective, forwarding_busy_ratio_max=None)
