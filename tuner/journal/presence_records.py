"""Encodes presence records of the journal's topic: key ``tuner|<cluster>|<holder>``, one JSON value.

Each tuner writes its own record with a plain producer, as a standby and a dry run have no transactions. A tombstone says that the
tuner has ended. No decision depends on these records, so an unreadable record is treated as absent.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace

import msgspec

from tuner.core.presence import TunerPresence

VERSION = 1
KIND = "tuner"
_NOT_WRITTEN = "reported_at_ms"  # The reader takes this field from the record's timestamp.


def presence_prefix(cluster: str) -> bytes:
    return f"{KIND}|{cluster}|".encode()


def presence_key(cluster: str, holder: str) -> bytes:
    return presence_prefix(cluster) + holder.encode()


def encode_presence(presence: TunerPresence) -> bytes:
    body = {name: value for name, value in asdict(presence).items() if name != _NOT_WRITTEN}
    return json.dumps({"v": VERSION, **body}).encode()


def decode_presence(value: bytes, reported_at_ms: int) -> TunerPresence:
    """Returns the presence that a record describes.

    Args:
        reported_at_ms: the record's timestamp.

    Raises:
        ValueError: not a presence record of this version.
    """
    try:
        body = msgspec.json.decode(value)
        if not isinstance(body, dict) or body.get("v") != VERSION:
            raise ValueError(f"not a presence record of version {VERSION}")
        known = {field.name for field in fields(TunerPresence)}
        presence = msgspec.convert({name: body[name] for name in body.keys() & known}, TunerPresence)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(f"not a presence record: {error}") from error
    return replace(presence, reported_at_ms=reported_at_ms)


def presence_or_none(value: bytes | None, reported_at_ms: int) -> TunerPresence | None:
    """Returns the presence that a record describes; None if the tuner has ended or this version cannot read the record.

    Args:
        reported_at_ms: the record's timestamp.
    """
    try:
        return decode_presence(value, reported_at_ms) if value is not None else None
    except ValueError:
        return None
