"""The settings file: YAML, with every value open to an environment variable, checked whole before anything starts.

An error names the key, the line, and what was expected. The order of authority: environment, then file, then default.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import astuple
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rheostat.config import unknown_keys
from rheostat.config.yaml_file import YamlFile, dotted
from rheostat.errors import BadInputError
from streaming.collector.settings import CollectorSettings
from streaming.settings import StreamSettings
from streaming.shared.contract import Topics
from streaming.shared.kafka import KafkaSettings
from tuner.settings.partition_limits import LimitsSettings
from tuner.settings.tuner import TunerSettings

ENV_PREFIX = "RHEOSTAT_"
ENV_DELIMITER = "__"
# Variables of ours that are not settings of the file.
_ENV_OTHER = {"RHEOSTAT_CACHE_DIR", "RHEOSTAT_STATE_DIR", "RHEOSTAT_IVY_SETTINGS", "RHEOSTAT_CONFIG"}
_SCALARS = {"cluster"}  # Keys of the top level that are no section.
_STRUCTURED = {
    ("collector", "endpoints"),
    ("limits", "by_broker"),
    ("stream", "sources"),
    ("tuner", "mutation_quota", "tenants"),
}  # Settings whose value is not a plain word.


class TopicSettings(BaseModel):
    """rheostat's own topics."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prefix: str = Field(
        default="rheostat",
        pattern=r"^[A-Za-z0-9._-]{1,200}$",
        description="topics are <prefix>.metrics, .signals, .rejects, .journal, .orders, .inputs",
    )


class Settings(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cluster: str = Field(
        pattern=r"^[A-Za-z0-9._-]{1,100}$",
        description="a name for the cluster, in every key, metric and log line; required",
    )
    kafka: KafkaSettings = Field(description="how to reach the cluster")
    topics: TopicSettings = Field(default_factory=TopicSettings, description="rheostat's own topics")
    collector: CollectorSettings = Field(default_factory=CollectorSettings, description="what is measured, how often")
    stream: StreamSettings = Field(description="how signals are made from metrics")
    limits: LimitsSettings = Field(default_factory=LimitsSettings, description="how many partitions there may be")
    tuner: TunerSettings = Field(description="what the tuner may do")

    @model_validator(mode="after")
    def _parts_fit(self) -> Settings:
        if 2 * self.collector.interval_s > self.stream.window_s:
            raise ValueError(
                f"collector.interval_s ({self.collector.interval_s:g}) is more than half of stream.window_s"
                f" ({self.stream.window_s}): a rate is measured between two scrapes inside one window"
            )
        ours = self.topic_names()
        for i, source in enumerate(self.stream.sources):
            if source.kafka is None and source.topic in astuple(ours):
                raise ValueError(
                    f"stream.sources[{i}].topic {source.topic} is rheostat's own: its metrics are read in any case"
                )
        return self

    def topic_names(self) -> Topics:
        return Topics.with_prefix(self.topics.prefix)


def load_settings(path: Path, environ: Mapping[str, str] | None = None) -> Settings:
    """Reads and checks the file.

    Raises:
        BadInputError: with every fault of the file, one a line: key, line, what was expected.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: not UTF-8 text (byte {error.start})") from error
    return parse_settings(text, str(path), os.environ if environ is None else environ)


def parse_settings(text: str, name: str, environ: Mapping[str, str]) -> Settings:
    file = YamlFile(text, name, may_be_empty=True)
    variables: dict[tuple[str, ...], str] = {}
    merged = _merge(file.body, _from_environment(environ, variables))
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        faults = [_fault(fault, file, variables) for fault in error.errors()]
        raise BadInputError("\n".join(faults)) from error


def _from_environment(environ: Mapping[str, str], variables: dict[tuple[str, ...], str]) -> dict[str, Any]:
    """``RHEOSTAT_TUNER__DRY_RUN=true`` → ``{"tuner": {"dry_run": "true"}}``; JSON where the setting is a mapping or a list.

    Args:
        variables: is told which variable each key came from.
    """
    found: dict[str, Any] = {}
    for variable, text in environ.items():
        keys = variable.removeprefix(ENV_PREFIX).lower().split(ENV_DELIMITER)
        # Others' variables may begin like ours: Kubernetes makes RHEOSTAT_SERVICE_HOST of a service named rheostat.
        ours = variable.startswith(ENV_PREFIX) and variable not in _ENV_OTHER
        if not ours or (len(keys) == 1 and keys[0] not in _SCALARS):
            continue
        at = found
        for key in keys[:-1]:
            at = at.setdefault(key, {})
            if not isinstance(at, dict):
                raise BadInputError(f"environment: {variable} goes into a value that another variable sets whole")
        variables[tuple(keys)] = variable
        at[keys[-1]] = _structure(text, variable) if tuple(keys) in _STRUCTURED else text
    return found


def _structure(text: str, variable: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BadInputError(f"environment: {variable}: expected JSON, a mapping or a list") from error


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _fault(fault: Any, file: YamlFile, variables: Mapping[tuple[str, ...], str]) -> str:
    at = tuple(fault["loc"])
    key = dotted(at)
    line = file.line_of(at)
    where = f"{file.name}:{line}" if line is not None else file.name
    # A variable may set a whole structure, of which only a part is wrong.
    own = (variables.get(tuple(map(str, at[:n]))) for n in range(len(at), 0, -1))
    if (variable := next(filter(None, own), None)) is not None:
        where = f"environment: {variable}"
    kind = fault["type"]
    if kind == "extra_forbidden":
        return f"{where}: unknown key {key}: {unknown_keys.hint(str(at[-1]), _known_keys(at[:-1]))}"
    if kind == "missing":
        model = _model_at(at[:-1])
        what = model.model_fields[str(at[-1])].description if model is not None else ""
        return f"{where}: {key} is missing: {what}"
    given = fault.get("input")
    secret = (
        any(word in key for word in ("password", "token")) or _model_at(at) is not None
    )  # A section given as one word.
    message = str(fault["msg"]).removeprefix("Value error, ")
    told = isinstance(given, dict | list | tuple) or secret or ", found " in message
    shown = "" if told else f", found {given!r}"
    return f"{where}: {key}: {message[:1].lower()}{message[1:]}{shown}"


def _model_at(at: tuple[str | int, ...]) -> type[BaseModel] | None:
    model: type[BaseModel] = Settings
    for part in at:
        if isinstance(part, int):
            continue  # A list's items are of the model that its own key led to.
        field = model.model_fields.get(part)
        inner = inner_model(field.annotation) or item_model(field.annotation) if field is not None else None
        if inner is None:
            return None
        model = inner
    return model


def item_model(annotation: Any) -> type[BaseModel] | None:
    """Of what a list's items are."""
    return inner_model(get_args(annotation)[0]) if get_origin(annotation) is tuple else None


def inner_model(annotation: Any) -> type[BaseModel] | None:
    options = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), None)


def _known_keys(at: tuple[str | int, ...]) -> list[str]:
    model = _model_at(at)
    return list(model.model_fields) if model is not None else []
