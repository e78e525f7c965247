"""Encodes signals as records (key and value) and decodes them. Decoding checks types and ranges by the fields' annotations."""

from __future__ import annotations

import json
from dataclasses import asdict
from urllib.parse import quote

import msgspec

from streaming.shared.contract.basics import SIGNAL_VERSION
from streaming.shared.contract.bounds import RECORD_BYTES_MAX, error_text
from streaming.shared.contract.scrapes import canonical_labels
from streaming.shared.contract.signals import (
    BrokerSignal,
    ControllerSignal,
    MoveSignal,
    ReplicationSignal,
    Signal,
    TenantSignal,
)


class ContractError(ValueError):
    """The record does not follow the contract."""


_KINDS: dict[str, type[Signal]] = {
    "broker": BrokerSignal,
    "move": MoveSignal,
    "replication": ReplicationSignal,
    "controller": ControllerSignal,
    "tenant": TenantSignal,
}


class _SignalHead(msgspec.Struct):
    """The fields that select the decoder for the whole record."""

    v: int
    kind: str


_HEAD = msgspec.json.Decoder(_SignalHead)
_DECODERS = {kind: msgspec.json.Decoder(signal) for kind, signal in _KINDS.items()}


def signal_kind(signal: Signal) -> str:
    return next(kind for kind, cls in _KINDS.items() if isinstance(signal, cls))


def signal_key(signal: Signal) -> bytes:
    """Returns ``cluster|kind|node|part|window end``.

    The part is the side of a move or the labels of a tenant. The keys of other signals have no part.
    """
    if isinstance(signal, BrokerSignal | MoveSignal | ReplicationSignal):
        node = signal.broker
        part = signal.side.value if isinstance(signal, MoveSignal) else ""
    else:
        node = signal.node
        part = tenant_labels(signal.user, signal.client_id) if isinstance(signal, TenantSignal) else ""
    return "|".join(
        filter(None, (signal.cluster, signal_kind(signal), str(node), part, str(signal.window_end_ms)))
    ).encode()


def tenant_labels(user: str | None, client_id: str | None) -> str:
    """Returns the canonical labels of a tenant, with sanitized values."""
    labels = {"client_id": client_id, "user": user}
    return canonical_labels({name: sanitize(value) for name, value in labels.items() if value is not None})


def sanitize(value: str) -> str:
    """Returns the value percent-encoded, as Kafka's Sanitizer encodes a user or client-id in a metric tag."""
    return quote(value, safe="-_.").replace("~", "%7E")


def encode_signal(signal: Signal) -> bytes:
    return json.dumps({"v": SIGNAL_VERSION, "kind": signal_kind(signal), **asdict(signal)}, allow_nan=False).encode()


def decode_signal(value: bytes) -> Signal:
    """Returns the signal that a record of the signals topic holds. Unknown fields are ignored; absent optional fields are None.

    Raises:
        ContractError: the only error. The record is not JSON, is too long or nested too deeply, has another version or kind,
            lacks a required field, or has a value outside its range (bounds.py).
    """
    if len(value) > RECORD_BYTES_MAX:
        raise ContractError(f"the record has {len(value)} bytes; a signal has at most {RECORD_BYTES_MAX}")
    subject = "signal"
    try:
        head = _HEAD.decode(value)
        if head.v != SIGNAL_VERSION:
            raise ContractError(f"schema version {head.v}, this program reads {SIGNAL_VERSION}")
        if head.kind not in _DECODERS:
            raise ContractError(f"unknown kind {head.kind!r:.40}")
        subject = f"{head.kind} signal"
        return _DECODERS[head.kind].decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ContractError(f"{subject}: {error_text(error)}") from error
    except RecursionError as error:
        raise ContractError(f"{subject}: nested too deeply") from error
