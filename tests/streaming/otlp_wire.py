"""Encodes OpenTelemetry metrics, given in the structure of OTLP's JSON, as protobuf (opentelemetry/proto/metrics/v1/metrics.proto)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

TEMPORALITIES = {"AGGREGATION_TEMPORALITY_DELTA": 1, "AGGREGATION_TEMPORALITY_CUMULATIVE": 2}


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    octets = bytearray()
    while number >= 0x80:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*octets, number])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def fixed64(field: int, packed: bytes) -> bytes:
    return varint(field << 3 | 1) + packed


def nested(field: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return varint(field << 3 | 2) + varint(len(body)) + body


def text(field: int, value: str) -> bytes:
    return nested(field, value.encode())


def request(batch: Mapping[str, Any]) -> bytes:
    """Returns an ExportMetricsServiceRequest."""
    return b"".join(nested(1, _resource(resource)) for resource in batch["resourceMetrics"])


def _resource(body: Mapping[str, Any]) -> bytes:
    own = [nested(1, *_attributes(1, body["resource"]), number(2, 3))] if "resource" in body else []
    return b"".join([*own, *(nested(2, _scope(s)) for s in body.get("scopeMetrics", [])), text(3, "https://schema")])


def _scope(body: Mapping[str, Any]) -> bytes:
    return nested(1, text(1, "scope"), text(2, "2")) + b"".join(nested(2, _metric(m)) for m in body["metrics"])


def _metric(body: Mapping[str, Any]) -> bytes:
    parts = [text(1, body["name"]), text(2, "a description"), text(3, body.get("unit", ""))]
    for kind, field in (("gauge", 5), ("sum", 7), ("histogram", 9)):
        if kind in body:
            points = [nested(1, _point(p)) for p in body[kind]["dataPoints"]]
            temporality = body[kind].get("aggregationTemporality") or 0
            kinds = [number(2, TEMPORALITIES.get(temporality, temporality)), number(3, 1)] if kind == "sum" else []
            parts.append(nested(field, *points, *kinds))
    return b"".join(parts)


def _point(body: Mapping[str, Any]) -> bytes:
    parts = [fixed64(2, struct.pack("<q", 1)), *_attributes(7, body)]
    if "timeUnixNano" in body:
        parts.append(fixed64(3, struct.pack("<q", int(body["timeUnixNano"]))))
    if body.get("asDouble") is not None:
        parts.append(fixed64(4, struct.pack("<d", float(body["asDouble"]))))
    if "asInt" in body:
        parts.append(fixed64(6, struct.pack("<q", int(body["asInt"]))))
    return b"".join([*parts, number(8, body.get("flags", 0))])


def _attributes(field: int, body: Mapping[str, Any]) -> list[bytes]:
    return [nested(field, text(1, a["key"]), nested(2, _value(a["value"]))) for a in body.get("attributes", [])]


def _value(value: Mapping[str, Any]) -> bytes:
    if "stringValue" in value:
        return text(1, value["stringValue"])
    return number(3, int(value["intValue"])) if "intValue" in value else number(2, 1)
