"""Recognizes the format of a record from its bytes, so that the doctor can name the right setting of a source."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from streaming.settings import FormatName
from streaming.shared.envelopes import envelope_text

_SHOWN = 40  # Characters, or bytes, of an unknown record.
# Each part can end at only one place, so that matching takes linear time for every record.
_LINE_PROTOCOL = re.compile(r"[^\s,=]+(,[^\s=]+=\S+)? [^\s=]+=\S+( -?\d+)?\s*")
_PROMETHEUS_TEXT = re.compile(r"# (HELP|TYPE) |[a-zA-Z_:][\w:]*(\{[^}]*\})? [-+\d.eENaInf]+\s")
_WIRE_BYTES = 2  # Protobuf's wire type of texts and messages.
_CRUISE_CONTROL_HEAD = 15
# The keys that only one JSON format has.
_JSON_FORMATS: tuple[tuple[frozenset[str], FormatName], ...] = (
    (frozenset({"resourceMetrics"}), "otlp_json"),
    (frozenset({"samples", "node", "v"}), "rheostat_json"),
    (frozenset({"fields", "name"}), "telegraf_json"),
    (frozenset({"metrics"}), "telegraf_json"),
    (frozenset({"labels", "name", "value"}), "prometheus_json"),
    (frozenset({"kind", "name"}), "prometheus_json"),
)


@dataclass(frozen=True, slots=True)
class RecordKind:
    """The kind of a record.

    Attributes:
        format: the name of the format in the settings; None if the stream does not read this kind.
        text: the name of the format, in words.
        do: the change that its writer needs; empty if that is not known.
    """

    format: FormatName | None
    text: str
    do: str = ""


def recognize(value: bytes | None) -> RecordKind:
    """Returns the kind of a record's value."""
    if not value:
        return RecordKind(None, "empty records")
    # Records of Cruise Control begin with 0, like records with the prefix of a schema registry. Their exact length tells them
    # apart.
    if _is_cruise_control(value):
        return RecordKind("cruise_control", "cruise_control")
    if envelope := envelope_text(value):
        text, _, do = envelope.partition(": ")
        return RecordKind(None, text, do)
    if _is_otlp_protobuf(value):
        return RecordKind("otlp_proto", "otlp_proto")
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return RecordKind(None, f"binary data that begins with the bytes {value[:_SHOWN].hex(' ')}")
    return _text_kind(text)


def _text_kind(text: str) -> RecordKind:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        if _LINE_PROTOCOL.match(text):
            return RecordKind("telegraf_influx", "telegraf_influx")
        if _PROMETHEUS_TEXT.match(text):
            return RecordKind(None, "Prometheus' text format", "let the writer send prometheus_json")
        return RecordKind(None, f"text that begins with {text[:_SHOWN]!r}")
    return _json_kind(body)


def _json_kind(body: Any) -> RecordKind:
    if not isinstance(body, dict):
        return RecordKind(None, "JSON, but not an object")
    for keys, format_ in _JSON_FORMATS:
        if keys <= body.keys():
            return RecordKind(format_, format_)
    if "schema" in body and "payload" in body:
        return RecordKind(
            None, "JSON in an envelope of Kafka Connect", "set value.converter.schemas.enable=false in the connector"
        )
    names = ", ".join(sorted(map(repr, body))[:5])[: 2 * _SHOWN]
    return RecordKind(None, f"JSON objects with the keys {names}" if names else "empty JSON objects")


def _is_cruise_control(value: bytes) -> bool:
    if len(value) < _CRUISE_CONTROL_HEAD + 8 or value[0] > 2 or value[1]:
        return False
    if value[0] == 0:
        return len(value) == _CRUISE_CONTROL_HEAD + 8
    name_bytes: int = struct.unpack_from(">i", value, _CRUISE_CONTROL_HEAD)[0]
    return len(value) == _CRUISE_CONTROL_HEAD + 4 + name_bytes + 8 + (4 if value[0] == 2 else 0)


def _is_otlp_protobuf(value: bytes) -> bool:
    """Returns whether the value is an ExportMetricsServiceRequest: resources with scopes with metrics with names."""
    try:
        for resource in _messages(value, 1):
            for scope in _messages(resource, 2):
                for metric in _messages(scope, 2):
                    return any(name.decode().isprintable() for name in _messages(metric, 1))
    except (ValueError, IndexError):
        return False
    return False


def _messages(message: bytes, number: int) -> Iterator[bytes]:
    """Yields the values of a field that is a message or a text.

    Raises:
        ValueError: the bytes are no protobuf message.
        IndexError: the message ends within a field.
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        wire_type = tag & 7
        if wire_type == 0:
            _, at = _varint(message, at)
            continue
        length = {1: 8, 5: 4}.get(wire_type)
        if wire_type == _WIRE_BYTES:
            length, at = _varint(message, at)
        if not tag >> 3 or length is None or length > len(message) - at:
            raise ValueError("not protobuf")
        if tag >> 3 == number and wire_type == _WIRE_BYTES:
            yield message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Returns the number at a position, and the position after it."""
    number = 0
    for shift in range(0, 64, 7):
        octet = message[at]
        at += 1
        number |= (octet & 0x7F) << shift
        if octet < 0x80:
            return number, at
    raise ValueError("a number has more than ten bytes")
