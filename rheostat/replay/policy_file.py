"""Another policy for the same moments: a YAML file with keys of ``tuner:`` in the settings file; what it leaves out stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rheostat.config.yaml_file import YamlFile
from rheostat.errors import BadInputError
from rheostat.replay import quota_policy
from tuner.journal.settings_snapshot import SettingsSnapshot
from tuner.runtime.throttle.steering_controller import writes_max
from tuner.settings.tuner import TunerSettings

# What does not bear on a decision that is made from recorded inputs.
_NOT_DECIDED_BY = ("dry_run", "cycle_s", "http", "capacity", "reassign")


def load_policy(path: Path, then: SettingsSnapshot, *, has_quotas: bool) -> SettingsSnapshot:
    """``then`` with what the file says.

    Args:
        has_quotas: cycles of the mutation quotas are on record there.

    Raises:
        BadInputError: with every fault, one a line: line, key, what was expected.
    """
    try:
        file = YamlFile(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: not UTF-8 text (byte {error.start})") from error
    body: dict[Any, Any] = dict(file.body)
    quotas = body.get("mutation_quota")
    useless: list[tuple[str | int, ...]] = [(key,) for key in _NOT_DECIDED_BY if key in body]
    if isinstance(quotas, dict):
        useless += [("mutation_quota", key) for key in quota_policy.NOT_DECIDED_BY if key in quotas]
    if useless:
        why = "has no say in what is decided from recorded inputs: leave it out"
        raise BadInputError("\n".join(file.fault(at, why) for at in useless))
    objective = body.get("objective", {"latency_ms": then.objective.latency_ms} if then.objective is not None else None)
    ceiling = then.limits.rate_bytes_per_s_max
    whole = {
        "rate_bytes_per_s_max": f"{ceiling:f}B/s",  # With a unit: a small number without one is refused.
        "rate_bytes_per_s_min": f"{min(then.limits.rate_bytes_per_s_min, ceiling):f}B/s",
        **body,
        "objective": objective,
        # What brokers carry is on record; here it only has to be there.
        **({"capacity": {"in_bytes_per_s": "1B/s", "out_bytes_per_s": "1B/s"}} if objective is not None else {}),
        **({"mutation_quota": quota_policy.merged(quotas, then.quotas)} if "mutation_quota" in body else {}),
    }
    try:
        wanted = TunerSettings.model_validate(whole)
    except ValidationError as error:
        raise BadInputError("\n".join(file.faults(error, TunerSettings))) from error
    if wanted.objective is not None and then.objective is None:
        at = file.fault(("objective",), "no second of the law is on record there, as the tuner only rescued")
        raise BadInputError(
            f"{at}: an objective can be tried where one was in force; `rheostat simulate` tries it anywhere"
        )
    if "mutation_quota" in body and not has_quotas:
        at = file.fault(("mutation_quota",), "no cycle of the mutation quotas is on record there")
        raise BadInputError(f"{at}: leave it out, or give a range in which they were dealt out")
    return _with(then, wanted, set(body))


def _with(then: SettingsSnapshot, wanted: TunerSettings, given: set[str]) -> SettingsSnapshot:
    asked, law = wanted.limits(), then.law
    names = {
        "rate_bytes_per_s_max": "rate_bytes_per_s_max",
        "rate_bytes_per_s_min": "rate_bytes_per_s_min",
        "signal_age_s_max": "signal_age_s_max",
        "external_change_hold_s": "external_change_hold_s",
        "clear_finished": "clear_finished",
        "existing_throttles": "adopts",
        "unthrottled_moves": "throttles_moves",
    }
    changes = {field: getattr(asked, field) for key, field in names.items() if key in given}
    objective = then.objective
    if law is not None:
        rates = {name: value for name, value in changes.items() if name.startswith("rate_bytes_per_s_")}
        law = replace(law, **rates)
    if "objective" in given:
        objective = wanted.objective.objective() if wanted.objective is not None else None
        changes |= {field: getattr(asked, field) for field in ("steers", "throttles_moves", "finish_at_ms")}
    return replace(
        then,
        limits=replace(then.limits, **changes),
        objective=objective,
        law=law,
        writes_max=writes_max(wanted.config_writes_per_s_max)
        if "config_writes_per_s_max" in given
        else then.writes_max,
        quotas=quota_policy.policy_of(wanted, given, then.quotas),
    )
