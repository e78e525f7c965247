"""Reads the settings file (YAML) and the environment, and checks all values before anything starts.

A credential overrides an environment variable, the variable overrides the file, and the file overrides the default. An error names
the key, the line and the expected value.

A credential is a file in the folder that systemd names in ``CREDENTIALS_DIRECTORY``. The file's name is a key, such as
``kafka.sasl_password``, and its content is the value. Files with other names, such as certificates, are no settings.
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

from learning.settings import LearnSettings
from rheostat.config.yaml_file import YamlFile
from rheostat.console.logs import LogLevel
from rheostat.errors import BadInputError
from streaming.collector.settings import CollectorSettings
from streaming.settings import StreamSettings
from streaming.shared.contract import Topics
from streaming.shared.kafka import KafkaSettings
from tuner.settings.partition_limits import LimitsSettings
from tuner.settings.tuner import TunerSettings

ENV_PREFIX = "RHEOSTAT_"
ENV_DELIMITER = "__"
CREDENTIALS_VARIABLE = "CREDENTIALS_DIRECTORY"
# Environment variables of rheostat that are not settings.
_ENV_NOT_SETTINGS = {"RHEOSTAT_CACHE_DIR", "RHEOSTAT_STATE_DIR", "RHEOSTAT_IVY_SETTINGS", "RHEOSTAT_CONFIG"}
_SCALARS = {"cluster"}  # Top-level keys that are not sections.
# Settings whose value is a mapping or a list.
_STRUCTURED = {
    ("collector", "endpoints"),
    ("limits", "by_broker"),
    ("stream", "sources"),
    ("tuner", "mutation_quota", "tenants"),
}


class TopicSettings(BaseModel):
    """rheostat's own topics."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prefix: str = Field(
        default="rheostat",
        pattern=r"^[A-Za-z0-9._-]{1,200}$",
        description="prefix of the names of rheostat's topics: <prefix>.metrics, <prefix>.signals, <prefix>.rejects, "
        "<prefix>.history, <prefix>.profiles, <prefix>.journal, <prefix>.orders, <prefix>.inputs",
    )


class LogSettings(BaseModel):
    """What the processes log."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    level: LogLevel = Field(
        default="info",
        description="lowest level of the lines that are logged: debug, info, warning or error; debug also shows warnings of the "
        "Kafka client; SIGHUP applies it to all processes",
    )


class Settings(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cluster: str = Field(
        pattern=r"^[A-Za-z0-9._-]{1,100}$",
        description="a name for the cluster, which is in every record key, metric and log line; required",
    )
    kafka: KafkaSettings = Field(description="how to reach the cluster")
    topics: TopicSettings = Field(default_factory=TopicSettings, description="rheostat's own topics")
    collector: CollectorSettings = Field(default_factory=CollectorSettings, description="what is measured, how often")
    stream: StreamSettings = Field(description="how signals are made from metrics")
    limits: LimitsSettings = Field(default_factory=LimitsSettings, description="how many partitions there may be")
    tuner: TunerSettings = Field(description="what the tuner may do")
    learn: LearnSettings = Field(default_factory=LearnSettings, description="what is learned from the history")
    log: LogSettings = Field(default_factory=LogSettings, description="what the processes log")

    @model_validator(mode="after")
    def _check_sections_fit(self) -> Settings:
        if 2 * self.collector.interval_s > self.stream.window_s:
            raise ValueError(
                f"collector.interval_s ({self.collector.interval_s:g}) is more than half of stream.window_s"
                f" ({self.stream.window_s}): a rate is measured between two scrapes inside one window"
            )
        connections = [("kafka", self.kafka)]
        connections += [(f"stream.sources[{i}].kafka", s.kafka) for i, s in enumerate(self.stream.sources) if s.kafka]
        for key, kafka in connections:
            if not self.stream.is_local and kafka.needs_token_service:
                raise ValueError(
                    f"with stream.master {self.stream.master}, Spark's executors on other machines cannot use the tokens that this "
                    f"machine fetches: set {key}.sasl_oauth_token_file, a file that exists on all of these machines"
                )
        keytabs = [(key, kafka.sasl_kerberos_keytab) for key, kafka in connections if kafka.uses_kerberos]
        for key, keytab in keytabs:
            if keytab != keytabs[0][1]:
                raise ValueError(
                    f"{key}.sasl_kerberos_keytab differs from that of {keytabs[0][0]}, but the Kerberos library has one keytab for "
                    "a whole process: use the same keytab, with one principal for both clusters"
                )
        own_topics = self.topic_names()
        for i, source in enumerate(self.stream.sources):
            if source.kafka is None and source.topic in astuple(own_topics):
                raise ValueError(
                    f"stream.sources[{i}].topic {source.topic} is rheostat's own topic, which is always read: leave it out"
                )
        return self

    def topic_names(self) -> Topics:
        return Topics.with_prefix(self.topics.prefix)


def load_settings(path: Path, environ: Mapping[str, str] | None = None) -> Settings:
    """Returns the checked settings of a file and of the environment.

    Raises:
        BadInputError: the text has all faults of the file, one per line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: not UTF-8 text (byte {error.start})") from error
    return parse_settings(text, str(path), os.environ if environ is None else environ)


def parse_settings(text: str, name: str, environ: Mapping[str, str]) -> Settings:
    """Returns the checked settings; ``name`` is the file's name in error messages. Raises as ``load_settings`` does."""
    file = YamlFile(text, name, may_be_empty=True)
    variables: dict[tuple[str, ...], str] = {}
    merged = _merge(file.body, _from_environment(environ, variables))
    merged = _merge(merged, _from_credentials(environ, variables))
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise BadInputError("\n".join(file.faults(error, Settings, variables))) from error


def _from_environment(environ: Mapping[str, str], variables: dict[tuple[str, ...], str]) -> dict[str, Any]:
    """Returns the settings in the environment: ``{"tuner": {"dry_run": "true"}}`` for ``RHEOSTAT_TUNER__DRY_RUN=true``.

    A variable for a mapping or a list has JSON as its value.

    Args:
        variables: this function adds each key that a variable sets, with the text for error messages that names the variable.
    """
    values: dict[str, Any] = {}
    for variable, text in environ.items():
        keys = variable.removeprefix(ENV_PREFIX).lower().split(ENV_DELIMITER)
        # Other variables may have the same prefix: Kubernetes sets RHEOSTAT_SERVICE_HOST for a service named rheostat.
        is_setting = variable.startswith(ENV_PREFIX) and variable not in _ENV_NOT_SETTINGS
        if not is_setting or (len(keys) == 1 and keys[0] not in _SCALARS):
            continue
        section = values
        for key in keys[:-1]:
            section = section.setdefault(key, {})
            if not isinstance(section, dict):
                raise BadInputError(
                    f"environment: {variable} sets a part of a value that another variable sets as a whole: give only one of them"
                )
        variables[tuple(keys)] = f"environment: {variable}"
        section[keys[-1]] = _parse_structure(text, variable) if tuple(keys) in _STRUCTURED else text
    return values


def _from_credentials(environ: Mapping[str, str], variables: dict[tuple[str, ...], str]) -> dict[str, Any]:
    """Returns the settings in the folder of credentials; arguments and errors as for ``_from_environment``."""
    folder = environ.get(CREDENTIALS_VARIABLE)
    if not folder:
        return {}
    values: dict[str, Any] = {}
    try:
        files = sorted(Path(folder).iterdir())
    except OSError as error:
        raise BadInputError(f"{CREDENTIALS_VARIABLE}: {folder} cannot be read: {error.strerror or error}") from error
    for file in files:
        keys = tuple(file.name.split("."))
        if len(keys) < 2 or keys[0] not in Settings.model_fields:
            continue
        try:
            text = file.read_text(encoding="utf-8").rstrip("\r\n")
        except OSError as error:
            raise BadInputError(f"credential {file.name}: {file} cannot be read: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise BadInputError(f"credential {file.name}: {file} is not UTF-8 text (byte {error.start})") from error
        if not text:
            raise BadInputError(f"credential {file.name}: {file} is empty: write the value of the setting into it")
        section = values
        for key in keys[:-1]:
            section = section.setdefault(key, {})
        section[keys[-1]] = text
        variables[keys] = f"credential {file.name}"
    return values


def _parse_structure(text: str, variable: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BadInputError(f"environment: {variable}: expected JSON, a mapping or a list") from error


def _merge(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of both; where both have a value that is not a mapping, that of ``overrides``."""
    merged = dict(base)
    for key, value in overrides.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def item_model(annotation: Any) -> type[BaseModel] | None:
    """Returns the model of a list's items; None if the items are not models."""
    return inner_model(get_args(annotation)[0]) if get_origin(annotation) is tuple else None


def inner_model(annotation: Any) -> type[BaseModel] | None:
    """Returns the model in an annotation such as ``Model | None``; None if the annotation has no model."""
    options = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), None)
