"""Makes the chart's values.schema.json. Its section `config` follows from the models of the settings.

The schema refuses unknown keys and wrong types, with the name of the key, before anything is installed. It does not repeat the
other checks of the program, such as ranges. Secrets are no keys of `config` here, because it goes into a ConfigMap.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rheostat.config.settings import Settings
from streaming.spark_conf import SECRET_NAME

Schema = dict[str, Any]

# A number may have a unit (50MB/s, 2GiB, 30s).
_NUMBER: Schema = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": "[0-9]"}]}
# Helm reads `off` as false, as YAML 1.1 says.
_OFF: Schema = {"enum": ["auto", "off", False]}
_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_MAP: Schema = {"type": "object"}
_LIST: Schema = {"type": "array", "items": {"type": "object"}}
_STRINGS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_REPLICAS: Schema = {"type": "integer", "minimum": 1}
# Keys of the settings that the chart needs, as it makes ports and probes from them.
_ENDPOINT: Schema = {"type": "object", "required": ["port"], "properties": {"port": {"type": "integer", "minimum": 1}}}


def values_schema() -> Schema:
    """Returns the JSON schema of the chart's values."""
    settings = Settings.model_json_schema()
    definitions = {name: _plain(schema) for name, schema in settings["$defs"].items()}
    # An entry of several clusters names only the keys in which it differs from the shared sections.
    definitions["ClusterSettings"] = _partial(definitions["ClusterSettings"], definitions)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **_section(
            nameOverride=_TEXT,
            fullnameOverride=_TEXT,
            image=_section(
                repository=_TEXT,
                tag=_TEXT,
                digest=_TEXT,
                pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
            ),
            imagePullSecrets=_LIST,
            config={"allOf": [_plain(settings, is_root=True), _chart_needs()]},
            secrets=_section(readToken=_secret(required=True), operateToken=_secret(), kafkaPassword=_secret()),
            mounts={"type": "array", "items": _mount()},
            collect=_part(replicas=_REPLICAS),
            stream=_part(
                replicas=_REPLICAS,
                persistence=_section(
                    enabled=_FLAG, size={"type": ["string", "integer"]}, storageClass=_TEXT, accessMode=_TEXT
                ),
            ),
            learn=_part(),
            tune=_part(replicas=_REPLICAS),
            podSecurityContext=_MAP,
            serviceAccount=_section(create=_FLAG, name=_TEXT, annotations=_STRINGS),
            podDisruptionBudget=_section(enabled=_FLAG),
            networkPolicy=_section(enabled=_FLAG, ingressFrom=_LIST, egress=_LIST),
            monitoring=_section(
                serviceMonitor=_section(enabled=_FLAG, interval=_TEXT, labels=_STRINGS, tlsConfig=_MAP),
                prometheusRule=_section(enabled=_FLAG, labels=_STRINGS),
                dashboards=_section(enabled=_FLAG, labels=_STRINGS, annotations=_STRINGS),
            ),
            # Helm adds this key to the values of a chart that is a dependency of another one.
            **{"global": _MAP},
        ),
        "definitions": definitions,
    }


def _section(**properties: Schema) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _secret(*, required: bool = False) -> Schema:
    name = {**_TEXT, "minLength": 1} if required else _TEXT
    return {**_section(name=name, key={**_TEXT, "minLength": 1}), "required": ["name", "key"]}


def _mount() -> Schema:
    return {
        **_section(
            name={**_TEXT, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63},
            secret=_TEXT,
            configMap=_TEXT,
            path={**_TEXT, "pattern": "^/"},
        ),
        "required": ["name", "path"],
        "oneOf": [{"required": ["secret"]}, {"required": ["configMap"]}],
    }


def _part(**more: Schema) -> Schema:
    return _section(
        enabled=_FLAG,
        kafkaUser=_TEXT,
        kafkaPassword=_secret(),
        resources=_MAP,
        podAnnotations=_STRINGS,
        podLabels=_STRINGS,
        nodeSelector=_STRINGS,
        tolerations=_LIST,
        affinity=_MAP,
        priorityClassName=_TEXT,
        extraEnv=_LIST,
        **more,
    )


def _chart_needs() -> Schema:
    """Returns the chart's own rules for the settings: the keys that its templates need, and no secret in ``stream.spark_conf``."""
    endpoints: dict[str, Schema] = {
        section: {"type": "object", "required": ["http"], "properties": {"http": _ENDPOINT}}
        for section in ("collector", "stream", "learn", "tuner")
    }
    endpoints["stream"]["properties"]["spark_conf"] = {"propertyNames": {"not": {"pattern": _in_any_case(SECRET_NAME)}}}
    kafka = {"type": "object", "properties": {"bootstrap_servers": {"type": "string", "minLength": 1}}}
    return {"type": "object", "required": list(endpoints), "properties": {**endpoints, "kafka": kafka}}


def _partial(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """Returns a schema without required keys, also in its parts. A definition that has none stays a reference."""
    if isinstance(schema, list):
        return [_partial(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        definition = definitions[schema["$ref"].rpartition("/")[2]]
        partial = _partial(definition, definitions)
        return schema if partial == definition else partial
    return {key: _partial(value, definitions) for key, value in schema.items() if key != "required"}


def _in_any_case(expression: re.Pattern[str]) -> str:
    """Returns the pattern for capital letters too. A JSON schema has no flag for this."""
    return re.sub(r"(?<!\\)[a-z]", lambda letter: f"[{letter[0]}{letter[0].upper()}]", expression.pattern)


def _plain(schema: Any, *, is_root: bool = False) -> Any:
    """Returns the part of a schema of pydantic that tells keys and types."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return {"$ref": schema["$ref"].replace("#/$defs/", "#/definitions/")}
    if schema.get("type") in ("number", "integer"):
        return _NUMBER
    if "anyOf" in schema:
        options = _plain(schema["anyOf"])
        # A section that may be missing can also be switched off by a word.
        return {"anyOf": [*options, _OFF] if any("$ref" in option for option in options) else options}
    if "enum" in schema:
        return {"enum": schema["enum"]}
    kept: Schema = {key: schema[key] for key in ("type", "required") if key in schema}
    if "properties" in schema:
        kept["properties"] = {
            key: _plain(value) for key, value in schema["properties"].items() if not _is_secret(value)
        }
    for key in ("additionalProperties", "items", "prefixItems"):
        if key in schema:
            kept["items" if key == "prefixItems" else key] = _plain(schema[key])
    # In the file `section:` without a value is a section with its defaults.
    if "properties" in schema and not is_root and "required" not in schema:
        return {"anyOf": [kept, {"type": "null"}]}
    return kept


def _is_secret(schema: Schema) -> bool:
    return any(option.get("writeOnly", False) for option in schema.get("anyOf", [schema]))
