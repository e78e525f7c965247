"""Presence records in the journal's topic: key ``tuner|<cluster>|<holder>``, one JSON value; the last one of a key holds.

Each tuner writes its own through a plain producer, outside the journal's transactions: a standby and a dry run have none. A
tombstone says that the tuner has ended. No decision depends on these records, so an unreadable one is no more than absent.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace

import msgspec

from tuner.core.presence import TunerPresence

VERSION = 1
KIND = "tuner"
_NOT_WRITTEN = "reported_at_ms"  # The broker's timestamp of the record tells it.


def presence_prefix(cluster: str) -> bytes:
    return f"{KIND}|{cluster}|".encode()


def presence_key(cluster: str, holder: str) -> bytes:
    return presence_prefix(cluster) + holder.encode()


def encode_presence(presence: TunerPresence) -> bytes:
    body = {name: value for name, value in asdict(presence).items() if name != _NOT_WRITTEN}
    return json.dumps({"v": VERSION, **body}).encode()


def decode_presence(value: bytes, reported_at_ms: int) -> TunerPresence:
    """The presence that a record tells.

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


def presence_of(value: bytes | None, reported_at_ms: int) -> TunerPresence | None:
    """The tuner that a record tells of; None for a tuner that has ended, and for a record that this version cannot read.

    Args:
        reported_at_ms: the record's timestamp.
    """
    try:
        return decode_presence(value, reported_at_ms) if value is not None else None
    except ValueError:
        return None
