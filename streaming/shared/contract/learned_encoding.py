"""Encodes history and profiles as records (key and value) and decodes them. Decoding checks types and ranges, as for signals."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from streaming.shared.contract.bounds import error_text
from streaming.shared.contract.encoding import ContractError, tenant_labels
from streaming.shared.contract.history import HistoryPeriod
from streaming.shared.contract.profiles import BrokerProfile, ChangeEvent, Profile

HISTORY_VERSION = 1
PROFILE_VERSION = 1
_BYTES_MAX = 16 * 1024 * 1024  # The largest record of rheostat's topics.

T = TypeVar("T")


class _Head(msgspec.Struct):
    """The fields that select the decoder for the whole record."""

    v: int
    kind: str


_HEAD = msgspec.json.Decoder(_Head)
_PERIOD = msgspec.json.Decoder(HistoryPeriod)
_PROFILES: dict[str, msgspec.json.Decoder[Any]] = {
    "broker": msgspec.json.Decoder(BrokerProfile),
    "event": msgspec.json.Decoder(ChangeEvent),
}


def history_key(period: HistoryPeriod) -> bytes:
    return f"{period.cluster}|{period.start_ms}".encode()


def encode_history(period: HistoryPeriod) -> bytes:
    return msgspec.json.encode({"v": HISTORY_VERSION, "kind": "period", **msgspec.to_builtins(period)})


def decode_history(value: bytes) -> HistoryPeriod:
    """Returns the period that a record of the history topic holds.

    Raises:
        ContractError: the record does not follow the contract. No other error is raised.
    """
    head = _head(value, HISTORY_VERSION)
    if head.kind != "period":
        raise ContractError(f"unknown kind {head.kind!r:.40}")
    return _decoded(_PERIOD, value, "history period")


def profile_key(profile: Profile) -> bytes:
    """Returns ``cluster|broker|id`` or ``cluster|kind|measure|subject``; a newer record of a key replaces an older record."""
    if isinstance(profile, BrokerProfile):
        return f"{profile.cluster}|broker|{profile.broker}".encode()
    subject = str(profile.broker) if profile.broker is not None else tenant_labels(profile.user, profile.client_id)
    kind = "unusual" if profile.is_unusual else "change"
    return f"{profile.cluster}|{kind}|{profile.measure.value}|{subject}".encode()


def encode_profile(profile: Profile) -> bytes:
    kind = "broker" if isinstance(profile, BrokerProfile) else "event"
    return msgspec.json.encode({"v": PROFILE_VERSION, "kind": kind, **msgspec.to_builtins(profile)})


def decode_profile(value: bytes) -> Profile:
    """Returns the profile or event that a record of the profiles topic holds.

    Raises:
        ContractError: the record does not follow the contract. No other error is raised.
    """
    head = _head(value, PROFILE_VERSION)
    if head.kind not in _PROFILES:
        raise ContractError(f"unknown kind {head.kind!r:.40}")
    profile: Profile = _decoded(_PROFILES[head.kind], value, f"{head.kind} profile")
    return profile


def _head(value: bytes, version: int) -> _Head:
    if len(value) > _BYTES_MAX:
        raise ContractError(f"the record has {len(value)} bytes; a record has at most {_BYTES_MAX}")
    head = _decoded(_HEAD, value, "record")
    if head.v != version:
        raise ContractError(f"schema version {head.v}, this program reads {version}")
    return head


def _decoded(decoder: msgspec.json.Decoder[T], value: bytes, subject: str) -> T:
    try:
        return decoder.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ContractError(f"{subject}: {error_text(error)}") from error
    except RecursionError as error:
        raise ContractError(f"{subject}: nested too deeply") from error
