"""Generates docs/reference/configuration.md from the settings models."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from rheostat.code_marks import mark_names
from rheostat.config.settings import Settings, inner_model, item_model
from streaming.shared.unit_settings import UnitHint

_HEAD = """# Configuration

This page is for operators who write the settings file. After reading it, you know the meaning, the type and the default of
each key. The [glossary](glossary.md) explains words such as signal, ceiling and headroom. `rheostat config reference` prints this
page.

The settings are in one YAML file, which you name with `--config`. An environment variable overrides a key of the file: for
`tuner.dry_run` the variable is `RHEOSTAT_TUNER__DRY_RUN`. If the file has an unknown key, a wrong type or a repeated key, each
command prints the line and ends with exit code 2.

Values of the types rate, time and size may have a unit, in the file and in the environment:

| type | examples |
|---|---|
| rate | `50MB/s`, `1.5GiB/s`, `10Gbit/s` |
| time | `500ms`, `30s`, `5min`, `2h`, `1h30m` |
| size | `2GiB` |

`MB` is 1,000,000 bytes, and `MiB` is 1,048,576 bytes. A number without a unit has the unit at the end of the key's name:
`rate_bytes_per_s_max: 50_000_000` is `50MB/s`, `window_s: 30` is `30s`, and `driver_memory_mb: 2048` is `2GiB`. rheostat refuses a
rate between 0 and 1000 without a unit, because `50` probably means 50 MB/s. Write `50B/s` if you mean 50 bytes/s.

In the tables below, an arrow (→) in a type stands for a YAML mapping. The default `none` means that the key has no value.

Other environment variables:

| variable | value |
|---|---|
| `RHEOSTAT_CACHE_DIR` | folder for the downloaded JVM artifacts |
| `RHEOSTAT_STATE_DIR` | folder for the addresses of a running lab and of the tuner, and for notes on crashes of Spark's JVM |
| `RHEOSTAT_CHOSEN_CLUSTER` | the cluster on which a command acts, like the option `--cluster` |
| `RHEOSTAT_IVY_SETTINGS` | an Ivy settings file, to download the JVM artifacts from a mirror of Maven Central |
| `JAVA_HOME` | folder of the Java installation |
"""


def reference() -> str:
    """Returns the whole page as Markdown."""
    return _HEAD + "".join(_section(Settings, ""))


def _section(model: type[BaseModel], prefix: str) -> Iterator[str]:
    """Yields the table of a model's own keys, then the sections of its inner models."""
    rows, nested_models = [], []
    for name, field in model.model_fields.items():
        nested = inner_model(field.annotation)
        if nested is not None:
            nested_models.append((nested, f"{prefix}{name}"))
            continue
        item = item_model(field.annotation)
        if item is not None:
            nested_models.append((item, f"{prefix}{name}[]"))
            rows.append(f"| `{prefix}{name}` | list | none | {mark_names(field.description or '')} |\n")
            continue
        kind = _units(field.metadata) or _kind(field.annotation)
        if field.is_required():
            default = "required"
        elif field.default_factory is not None or field.default is PydanticUndefined:
            default = "none"
        else:
            default = "none" if field.default is None else f"`{_value(field.default)}`"
        rows.append(f"| `{prefix}{name}` | {kind} | {default} | {_meaning(field.description or '', kind)} |\n")
    if rows:
        doc = (model.__doc__ or "").strip().splitlines()[0].replace("``", "`")
        yield f"\n## {prefix.rstrip('.') or 'top level'}\n\n{mark_names(doc)}\n\n"
        yield "| key | type | default | meaning |\n|---|---|---|---|\n"
        yield from rows
    for nested, path in nested_models:
        yield from _section(nested, f"{path}.")


def _meaning(description: str, kind: str) -> str:
    """Returns a description with backquotes around names, and around each value that the description explains ("value: …")."""
    for value in sorted(kind.removeprefix("list of: ").split(", "), key=len, reverse=True):
        description = re.sub(rf"(?<![\w`-]){re.escape(value)}(?=:)", r"`\g<0>`", description)
    return mark_names(description)


def _units(metadata: Iterable[Any]) -> str | None:
    """Returns the type of a key that accepts units, with an example; None for any other key."""
    return next((f"{hint.kind} ({hint.example})" for hint in metadata if isinstance(hint, UnitHint)), None)


def _value(default: Any) -> str:
    """Returns a default as it is written in YAML."""
    if isinstance(default, tuple):
        return f"[{', '.join(map(str, default))}]"
    return str(default).lower() if isinstance(default, bool) else str(default)


def _kind(annotation: Any) -> str:
    """Returns the name of a type for operators, such as "whole number"."""
    if annotation is type(None):
        return "none"
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        return _units(metadata) or _kind(inner)
    if get_origin(annotation) is Literal:
        return ", ".join(str(value) for value in get_args(annotation))
    if get_origin(annotation) in (Union, UnionType):
        return " or ".join(_kind(option) for option in get_args(annotation) if option is not type(None))
    if get_origin(annotation) is tuple:
        return f"list of: {_kind(get_args(annotation)[0])}"
    if get_origin(annotation) is dict:
        key, value = get_args(annotation)
        return f"{_kind(key)} → {_kind(value)}"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return ", ".join(str(member.value) for member in annotation)
    names = {
        "AwareDatetime": "date and time",
        "BrokerCapacity": "capacity",
        "str": "text",
        "SecretStr": "text",
        "Path": "path",
        "HadoopFolder": "address of a Hadoop file system",
        "int": "whole number",
        "float": "number",
        "bool": "true, false",
        "ClusterSettings": "overrides",
    }
    name = str(annotation.__name__)
    return names.get(name, name)
