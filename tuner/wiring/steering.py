"""The law that follows the clients, and what of the settings is on record with its inputs."""

from __future__ import annotations

from tuner.core.throttle_limits import StallLimits
from tuner.journal.input_log import InputLog
from tuner.journal.settings_snapshot import SettingsSnapshot
from tuner.runtime.throttle.actuator import Throttles
from tuner.runtime.throttle.steering_controller import SteeringController, writes_max
from tuner.settings.tuner import TunerSettings


def steering_of(settings: TunerSettings, throttles: Throttles, inputs: InputLog) -> SteeringController | None:
    """None: no objective or no capacity is set, so nothing is steered."""
    if settings.objective is None or settings.capacity is None:
        return None
    return SteeringController(
        throttles,
        settings.objective.objective(),
        settings.capacity.of,
        settings.law_limits(),
        writes_per_s_max=settings.config_writes_per_s_max,
        inputs=inputs,
    )


def in_force(settings: TunerSettings) -> SettingsSnapshot:
    """What is on record with the inputs."""
    return SettingsSnapshot(
        settings.limits(),
        StallLimits(),
        settings.objective.objective() if settings.objective is not None else None,
        settings.law_limits() if settings.objective is not None else None,
        writes_max(settings.config_writes_per_s_max),
        settings.dry_run,
    )
