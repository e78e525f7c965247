"""Recognizes record values that are wrapped: compressed by the writer itself, or with the prefix of a schema registry.

No wire format of the stream begins with these bytes, except Cruise Control's, whose records begin with 0.
"""

from __future__ import annotations

from types import MappingProxyType

_COMPRESSED = " data: the writer compresses each value itself; switch this off, and let its Kafka producer compress"
_GLUE = "a record of AWS Glue's schema registry: let the writer send its values without a schema registry"
# First bytes → the kind of envelope, and what to change in the program that writes the records.
PREFIXES = MappingProxyType(
    {
        b"\x1f\x8b": f"gzip{_COMPRESSED}",
        b"\x28\xb5\x2f\xfd": f"zstd{_COMPRESSED}",
        b"\x04\x22\x4d\x18": f"LZ4{_COMPRESSED}",
        b"\xff\x06\x00\x00sNaPpY": f"Snappy{_COMPRESSED}",
        b"Obj\x01": "an Avro file: let the writer send one of the stream's formats instead",
        b"\x03\x00": _GLUE,
        b"\x03\x05": _GLUE,
    }
)
REGISTRY_MAGIC = b"\x00"
REGISTRY_ID_BYTES = 4
# The text about a schema registry, with the kind of data and the schema's id.
REGISTRY_TEXT = (
    "{kind} with a schema registry's prefix (magic byte 0, schema id {id}): let the writer send JSON or OTLP "
    "without a schema registry"
)
# The bytes after the prefix → the kind of data. In Protobuf, these bytes are the list of message indexes, usually a single 0.
REGISTRY_KINDS = MappingProxyType({b"{": "JSON", b"\x00\x0a": "Protobuf"})
REGISTRY_OTHER_KIND = "Avro or Protobuf"


def envelope_text(value: bytes) -> str | None:
    """Returns a text about the envelope of a wrapped value and what to change; None for a value without a known envelope."""
    for prefix, text in PREFIXES.items():
        if value.startswith(prefix):
            return text
    payload_at = len(REGISTRY_MAGIC) + REGISTRY_ID_BYTES
    schema_id = int.from_bytes(value[len(REGISTRY_MAGIC) : payload_at])
    if not value.startswith(REGISTRY_MAGIC) or len(value) <= payload_at or not schema_id:
        return None
    kinds = (kind for first, kind in REGISTRY_KINDS.items() if value.startswith(first, payload_at))
    return REGISTRY_TEXT.format(kind=next(kinds, REGISTRY_OTHER_KIND), id=schema_id)
