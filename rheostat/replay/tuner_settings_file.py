"""Reads the file of `rheostat replay --tuner-settings`, YAML with keys of the section ``tuner``.

Keys that the file lacks keep their recorded values.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rheostat.config.yaml_file import YamlFile
from rheostat.errors import BadInputError
from rheostat.replay import quota_policy
from tuner.control.cruise_control.policy import MovementLimits
from tuner.control.leadership.policy import LeadershipLimits
from tuner.journal.settings_snapshot import SettingsSnapshot
from tuner.runtime.throttle.steering_controller import writes_per_tick_max
from tuner.settings.tuner import TunerSettings

# Settings that no decision on recorded inputs depends on.
_WITHOUT_EFFECT = ("dry_run", "cycle_s", "http", "capacity", "reassign", "schedule")
# Settings of throttle decisions, and their fields in ThrottleLimits. The settings of the objective are applied separately.
_LIMITS_FIELDS = {
    "rate_bytes_per_s_max": "rate_bytes_per_s_max",
    "rate_bytes_per_s_min": "rate_bytes_per_s_min",
    "signal_age_s_max": "signal_age_s_max",
    "external_change_hold_s": "external_change_hold_s",
    "clear_finished": "clears_finished",
    "existing_throttles": "adopts_existing",
    "unthrottled_moves": "throttles_all_moves",
}


def load_tuner_settings(path: Path, recorded: SettingsSnapshot, *, has_quotas: bool) -> SettingsSnapshot:
    """Returns the recorded settings with the values of the file.

    Args:
        has_quotas: whether mutation quota cycles are recorded in the range.

    Raises:
        BadInputError: every fault of the file, one per line, with line, key and expected value.
    """
    file = _read_file(path)
    body: dict[Any, Any] = dict(file.body)
    quotas = body.get("mutation_quota")
    without_effect: list[tuple[str | int, ...]] = [(key,) for key in _WITHOUT_EFFECT if key in body]
    if isinstance(quotas, dict):
        without_effect += [("mutation_quota", key) for key in quota_policy.WITHOUT_EFFECT if key in quotas]
    if without_effect:
        reason = "no decision on recorded inputs depends on this key: leave it out"
        raise BadInputError("\n".join(file.fault(at, reason) for at in without_effect))
    try:
        settings = TunerSettings.model_validate(_complete(body, recorded))
    except ValidationError as error:
        raise BadInputError("\n".join(file.faults(error, TunerSettings))) from error
    if settings.objective is not None and recorded.objective is None:
        at = file.fault(("objective",), "the range has no steering ticks, as the tuner had no objective")
        raise BadInputError(f"{at}: give a range with an objective, or try it with `rheostat simulate`")
    if "mutation_quota" in body and not has_quotas:
        at = file.fault(("mutation_quota",), "the range has no mutation quota cycles")
        raise BadInputError(f"{at}: leave it out, or give a range in which mutation quotas were set")
    return _with_settings(recorded, settings, set(body))


def _read_file(path: Path) -> YamlFile:
    try:
        return YamlFile(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: not UTF-8 text (byte {error.start})") from error


def _complete(body: dict[Any, Any], recorded: SettingsSnapshot) -> dict[Any, Any]:
    """Returns the ``tuner:`` section of the file, completed with recorded values so that it can be validated."""
    max_rate, min_rate = recorded.limits.rate_bytes_per_s_max, recorded.limits.rate_bytes_per_s_min
    complete = {
        "rate_bytes_per_s_max": f"{max_rate:f}B/s",  # With a unit: validation refuses a small number without one.
        "rate_bytes_per_s_min": f"{min(min_rate, max_rate):f}B/s",
        **body,
        "objective": body.get("objective", "off" if recorded.objective is None else "auto"),
    }
    if complete["objective"] not in (
        "off",
        False,
        None,
    ):  # Share mode requires a capacity. The recorded inputs have the real capacities.
        complete["capacity"] = {"in_bytes_per_s": "1B/s", "out_bytes_per_s": "1B/s"}
    if "mutation_quota" in body:
        complete["mutation_quota"] = quota_policy.merge_section(body["mutation_quota"], recorded.quotas)
    return complete


def _with_settings(recorded: SettingsSnapshot, settings: TunerSettings, keys: set[str]) -> SettingsSnapshot:
    """Returns the recorded settings with the values of ``keys``."""
    limits, law, objective = settings.limits(), recorded.law, recorded.objective
    changes = {field: getattr(limits, field) for key, field in _LIMITS_FIELDS.items() if key in keys}
    if law is not None:  # The control law of the closed loop has its own copy of the minimum and maximum rate.
        law = replace(law, **{name: value for name, value in changes.items() if name.startswith("rate_bytes_per_s_")})
    if "objective" in keys:
        objective = settings.control_objective()
        changes |= {field: getattr(limits, field) for field in ("closed_loop", "throttles_all_moves", "finish_at_ms")}
    writes_max = recorded.writes_max
    if "config_writes_per_s_max" in keys:
        writes_max = writes_per_tick_max(settings.config_writes_per_s_max)
    return replace(
        recorded,
        limits=replace(recorded.limits, **changes),
        objective=objective,
        law=law,
        writes_max=writes_max,
        quotas=quota_policy.policy_of(settings, keys, recorded.quotas),
        leadership=_leadership_limits(settings, keys, recorded.leadership),
        movements=_movement_limits(settings, keys, recorded.movements),
    )


def _leadership_limits(
    settings: TunerSettings, keys: set[str], recorded: LeadershipLimits | None
) -> LeadershipLimits | None:
    if recorded is None:
        return None
    return LeadershipLimits(
        acts=settings.leadership == "act" if "leadership" in keys else recorded.acts,
        objective=settings.control_objective() if "objective" in keys else recorded.objective,
        signal_age_s_max=settings.signal_age_s_max if "signal_age_s_max" in keys else recorded.signal_age_s_max,
    )


def _movement_limits(settings: TunerSettings, keys: set[str], recorded: MovementLimits | None) -> MovementLimits | None:
    """Returns the limits of the section ``cruise_control`` if the file has this section, which must be complete, with its url."""
    if recorded is None:
        return None
    hold_s = settings.external_change_hold_s if "external_change_hold_s" in keys else recorded.external_change_hold_s
    if settings.cruise_control is not None:
        return settings.cruise_control.limits(hold_s)
    return replace(recorded, external_change_hold_s=hold_s)
