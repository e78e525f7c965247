"""Reads the settings file (YAML) and the environment, and checks all values before anything starts.

A credential overrides an environment variable, the variable overrides the file, and the file overrides the default. An error names
the key, the line and the expected value.

A credential is a file in the folder that systemd names in ``CREDENTIALS_DIRECTORY``. The file's name is a key, such as
``kafka.sasl_password``, and its content is the value. Files with other names, such as certificates, are no settings.

A file may describe several clusters (clusters.py). ``load_file`` returns the settings of the processes that serve all clusters, and
``load_settings`` returns the settings of one cluster. For a file with one cluster, both return the same settings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from learning.settings import LearnSettings
from rheostat.config.clusters import (
    NAME_PATTERN,
    ClusterSettings,
    complete_entries,
    entries_in,
    entry_faults,
    is_repeated,
    name_faults,
    variable_names,
)
from rheostat.config.merge import merge
from rheostat.config.yaml_file import YamlFile
from rheostat.console.cluster_option import VARIABLE as CLUSTER_VARIABLE
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
_ENV_NOT_SETTINGS = {
    "RHEOSTAT_CACHE_DIR",
    "RHEOSTAT_STATE_DIR",
    "RHEOSTAT_IVY_SETTINGS",
    "RHEOSTAT_CONFIG",
    CLUSTER_VARIABLE,
}
_CLUSTERS = "clusters"
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
        description="first part of the names of rheostat's topics: `<prefix>.metrics`, `<prefix>.signals`, `<prefix>.rejects`, "
        "`<prefix>.history`, `<prefix>.profiles`, `<prefix>.journal`, `<prefix>.orders`, `<prefix>.inputs`",
    )


class LogSettings(BaseModel):
    """The log of all processes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    level: LogLevel = Field(
        default="info",
        description="the processes write lines of this level and of the levels after it in the order debug, info, warning, "
        "error; `debug` also shows warnings of the Kafka client. A change takes effect with SIGHUP",
    )


class Settings(BaseModel):
    """Keys at the top level of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cluster: str = Field(
        pattern=NAME_PATTERN,
        description="a name for the cluster; rheostat writes it into every record key, metric and log line",
    )
    kafka: KafkaSettings = Field(description="how to reach the cluster")
    clusters: dict[str, ClusterSettings] = Field(
        default_factory=dict,
        description="the clusters, if rheostat watches several: name → the keys of this cluster in the sections `kafka`, "
        "`collector`, `limits` and `tuner`. `cluster` and `kafka` then give the name and the connection of the metrics "
        "cluster, which has rheostat's topics of samples, signals and history",
    )
    topics: TopicSettings = Field(default_factory=TopicSettings, description="rheostat's own topics")
    collector: CollectorSettings = Field(default_factory=CollectorSettings, description="what is measured, how often")
    stream: StreamSettings = Field(description="how signals are made from metrics")
    limits: LimitsSettings = Field(default_factory=LimitsSettings, description="how many partitions there may be")
    tuner: TunerSettings = Field(description="what the tuner may do")
    learn: LearnSettings = Field(default_factory=LearnSettings, description="what is learned from the history")
    log: LogSettings = Field(default_factory=LogSettings, description="what the processes log")
    _metrics_cluster: tuple[str, KafkaSettings] | None = PrivateAttr(default=None)  # None means the watched cluster.
    _other_pages: tuple[tuple[str, str], ...] = PrivateAttr(default=())

    @model_validator(mode="after")
    def _check_sections_fit(self) -> Settings:
        if 2 * self.collector.interval_s > self.stream.window_s:
            raise ValueError(
                f"collector.interval_s ({self.collector.interval_s:g}) is more than half of stream.window_s"
                f" ({self.stream.window_s}): each window needs two scrapes, because a rate is measured between them"
            )
        connections = [("kafka", self.kafka)]
        connections += [(f"stream.sources[{i}].kafka", s.kafka) for i, s in enumerate(self.stream.sources) if s.kafka]
        for key, kafka in connections:
            if not self.stream.is_local and kafka.needs_token_service:
                raise ValueError(
                    f"with stream.master {self.stream.master}, Spark's executors on other machines cannot use the tokens that this "
                    f"machine fetches: set {key}.sasl_oauth_token_file, a file that exists on all of these machines"
                )
        connections += [(f"clusters.{name}.kafka", entry.kafka) for name, entry in self.clusters.items()]
        logins = [(key, kafka) for key, kafka in connections if kafka.uses_kerberos]
        for name in ("sasl_kerberos_keytab", "sasl_kerberos_principal"):
            for key, kafka in logins:
                if getattr(kafka, name) != getattr(logins[0][1], name):
                    other = logins[0][0]
                    raise ValueError(
                        f"{key}.{name} differs from {other}.{name}, but the Kerberos library has one ticket cache for "
                        "a whole process: use the same keytab, with one principal for all clusters"
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

    @property
    def metrics_kafka(self) -> KafkaSettings:
        """The connection to the metrics cluster, which has the topics of samples, signals, history and profiles."""
        return self.kafka if self._metrics_cluster is None else self._metrics_cluster[1]

    @property
    def metrics_cluster(self) -> str:
        """The name of the metrics cluster, under which the shared processes have their leases."""
        return self.cluster if self._metrics_cluster is None else self._metrics_cluster[0]

    @property
    def has_own_metrics_cluster(self) -> bool:
        """Whether the metrics cluster is another cluster than the watched one."""
        return self.metrics_cluster != self.cluster

    @property
    def other_pages(self) -> tuple[tuple[str, str], ...]:
        """Name and page of each other cluster of the file."""
        return self._other_pages

    def for_each_cluster(self) -> list[Settings]:
        """Returns the settings of each cluster; only these settings if the file describes one cluster."""
        return [self.for_cluster(name) for name in self.clusters] or [self]

    def for_cluster(self, name: str) -> Settings:
        """Returns the settings of one of several clusters."""
        entry = self.clusters[name]
        sections = {section: getattr(entry, section) for section in ClusterSettings.model_fields}
        settings = self.model_copy(update={**sections, "cluster": name, "clusters": {}})
        settings._metrics_cluster = (self.cluster, self.kafka)
        settings._other_pages = tuple(
            (other, entry.tuner.http.page) for other, entry in self.clusters.items() if other != name
        )
        return settings


def load_settings(path: Path, environ: Mapping[str, str] | None = None) -> Settings:
    """Returns the checked settings of one cluster. If the file has several clusters, the option --cluster has chosen one of them.

    Raises:
        BadInputError: the text has all faults of the file, one per line; or no cluster, or an unknown cluster, is chosen.
    """
    environ = os.environ if environ is None else environ
    return choose_cluster(load_file(path, environ), environ.get(CLUSTER_VARIABLE), str(path))


def choose_cluster(settings: Settings, name: str | None, file: str) -> Settings:
    """Returns the settings of the cluster with this name; without a name, the settings of the only cluster.

    Raises:
        BadInputError: the file has no cluster with this name, or has several clusters and no name is given.
    """
    names = list(settings.clusters) or [settings.cluster]
    if name is None and len(names) > 1:
        raise BadInputError(f"{file} has several clusters: choose one of them with --cluster: {', '.join(names)}")
    if name is not None and name not in names:
        raise BadInputError(
            f"--cluster {name}: {file} has no cluster of this name; its clusters are {', '.join(names)}"
        )
    return settings.for_cluster(name or names[0]) if settings.clusters else settings


def load_file(path: Path, environ: Mapping[str, str] | None = None) -> Settings:
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
    """Returns the checked settings; ``name`` is the file's name in error messages. Raises as ``load_file`` does."""
    file = YamlFile(text, name, may_be_empty=True)
    if faults := [file.fault(*fault) for fault in name_faults(file.body)]:
        raise BadInputError("\n".join(faults))
    variables: dict[tuple[str, ...], str] = {}
    cluster_names = list(entries_in(file.body))
    merged = merge(file.body, _from_environment(environ, variables, cluster_names))
    merged = merge(merged, _from_credentials(environ, variables, cluster_names))
    try:
        settings = Settings.model_validate(complete_entries(merged))
    except ValidationError as error:
        shared_faults = {(fault["loc"], fault["msg"]) for fault in error.errors()}
        faults = file.faults(
            error, Settings, variables, lambda fault: is_repeated(fault, shared_faults, entries_in(merged))
        )
        raise BadInputError("\n".join(faults)) from error
    if faults := [file.fault(*fault) for fault in entry_faults(settings, entries_in(merged))]:
        raise BadInputError("\n".join(faults))
    return settings


def _from_environment(
    environ: Mapping[str, str], variables: dict[tuple[str, ...], str], cluster_names: Sequence[str]
) -> dict[str, Any]:
    """Returns the settings in the environment: ``{"tuner": {"dry_run": "true"}}`` for ``RHEOSTAT_TUNER__DRY_RUN=true``.

    A variable for a mapping or a list has JSON as its value.

    Args:
        variables: the result: the function adds each key that a variable sets, with a text about the variable for error messages.
    """
    values: dict[str, Any] = {}
    names = variable_names(cluster_names)
    for variable, text in environ.items():
        keys = variable.removeprefix(ENV_PREFIX).lower().split(ENV_DELIMITER)
        # Other variables may have the same prefix: Kubernetes sets RHEOSTAT_SERVICE_HOST for a service named rheostat.
        is_setting = variable.startswith(ENV_PREFIX) and variable not in _ENV_NOT_SETTINGS
        if not is_setting or (len(keys) == 1 and keys[0] not in _SCALARS):
            continue
        if keys[0] == _CLUSTERS:
            keys[1] = _known_cluster(names.get(keys[1]), f"environment: {variable}", cluster_names)
        section = values
        for key in keys[:-1]:
            section = section.setdefault(key, {})
            if not isinstance(section, dict):
                raise BadInputError(
                    f"environment: {variable} sets a part of a value that another variable sets as a whole: give only one of them"
                )
        variables[tuple(keys)] = f"environment: {variable}"
        shared_keys = tuple(keys[2:] if keys[0] == _CLUSTERS else keys)
        section[keys[-1]] = _parse_structure(text, variable) if shared_keys in _STRUCTURED else text
    return values


def _known_cluster(name: str | None, source: str, cluster_names: Sequence[str]) -> str:
    if name is None:
        known = f"its clusters are {', '.join(cluster_names)}" if cluster_names else "it has no `clusters`"
        raise BadInputError(f"{source}: the file has no cluster of this name; {known}")
    return name


def _from_credentials(
    environ: Mapping[str, str], variables: dict[tuple[str, ...], str], cluster_names: Sequence[str]
) -> dict[str, Any]:
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
        if keys[0] == _CLUSTERS:  # The name of a cluster may have dots.
            found = [name for name in cluster_names if file.name.startswith(f"{_CLUSTERS}.{name}.")]
            name = max(found, key=len, default=None)  # If both prod and prod.east match, the longer name is meant.
            name = _known_cluster(name, f"credential {file.name}", cluster_names)
            keys = (_CLUSTERS, name, *file.name.removeprefix(f"{_CLUSTERS}.{name}.").split("."))
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


def item_model(annotation: Any) -> type[BaseModel] | None:
    """Returns the model of a list's items; None if the items are not models."""
    return inner_model(get_args(annotation)[0]) if get_origin(annotation) is tuple else None


def inner_model(annotation: Any) -> type[BaseModel] | None:
    """Returns the model in an annotation such as ``Model | None``; None if the annotation has no model."""
    options = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), None)
