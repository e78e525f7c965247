"""Builds the throttles' closed-loop control from the settings."""

from __future__ import annotations

from tuner.core.throttle_limits import StallLimits
from tuner.journal.input_log import InputLog
from tuner.journal.settings_snapshot import SettingsSnapshot
from tuner.runtime.throttle.actuator import Throttles
from tuner.runtime.throttle.steering_controller import SteeringController, writes_per_tick_max
from tuner.settings.tuner import TunerSettings


def steering_controller(settings: TunerSettings, throttles: Throttles, inputs: InputLog) -> SteeringController | None:
    """Returns None if the settings have no objective: without closed-loop control the tuner only rescues moves."""
    objective, capacity = settings.control_objective(), settings.capacity
    if objective is None:
        return None
    return SteeringController(
        throttles,
        objective,
        capacity.of if capacity is not None else lambda _: None,
        settings.law_limits(),
        writes_per_s_max=settings.config_writes_per_s_max,
        inputs=inputs,
    )


def settings_snapshot(settings: TunerSettings) -> SettingsSnapshot:
    """Returns the settings that the input log records, so that a replay decides with the same settings."""
    return SettingsSnapshot(
        limits=settings.limits(),
        stall=StallLimits(),
        objective=settings.control_objective(),
        law=settings.law_limits() if settings.objective is not None else None,
        writes_max=writes_per_tick_max(settings.config_writes_per_s_max),
        dry_run=settings.dry_run,
    )
