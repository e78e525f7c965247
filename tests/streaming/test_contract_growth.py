"""A field added to a signal needs no new version: older readers ignore it, and a reader of older records gets None."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from streaming.shared.contract import (
    SCRAPE_VERSION,
    SIGNAL_VERSION,
    BrokerSignal,
    ContractError,
    ControllerSignal,
    MoveSignal,
    ReplicationSignal,
    Side,
    Signal,
    TenantSignal,
    decode_signal,
    encode_signal,
)

BARE: dict[str, Signal] = {
    "broker": BrokerSignal("c", 3, 5000, 4000, 6, 1.0),
    "move": MoveSignal("c", 3, Side.LEADER, 5000, 4000, 6, 1.0, 1, 1),
    "replication": ReplicationSignal("c", 3, 5000, 4000, 6, 1.0),
    "controller": ControllerSignal("c", 100, 5000, 4000, 6, 1.0),
    "tenant": TenantSignal("c", 100, 5000, 4000, 6, 1.0),
}
# Since version 1 came out.
ADDED = [
    ("broker", "produce_mean_ms"),
    ("broker", "metadata_lag_ms"),
    ("broker", "step_s"),
    ("broker", "step_reassignment_in_bytes_per_s"),
    ("broker", "step_reassignment_out_bytes_per_s"),
    ("broker", "step_network_in_bytes_per_s"),
    ("broker", "step_network_out_bytes_per_s"),
    ("move", "recovering_bytes"),
    ("broker", "log_dir_copied_bytes_per_s"),
    ("broker", "link_speed_bytes_per_s"),
    ("controller", "create_mean_ms"),
    ("controller", "delete_mean_ms"),
    ("controller", "metadata_records_per_s"),
    ("controller", "topic_requests_in_progress_mean"),
    ("controller", "addition_mean_ms"),
    ("controller", "create_requests_per_s"),
    ("controller", "delete_requests_per_s"),
    ("controller", "addition_requests_per_s"),
    ("controller", "old_create_requests_per_s"),
    ("controller", "old_delete_requests_per_s"),
    ("controller", "old_addition_requests_per_s"),
    ("controller", "refusable_requests_per_s"),
    ("controller", "partitions_created_per_s"),
    ("controller", "partitions_deleted_per_s"),
    ("controller", "topics_created_per_s"),
    ("controller", "topics_deleted_per_s"),
]


def test_contract_versions_are_unchanged() -> None:
    assert (SCRAPE_VERSION, SIGNAL_VERSION) == (1, 2)


@pytest.mark.parametrize("kind", BARE)
def test_decode_signal_accepts_record_with_required_fields_only(kind: str) -> None:
    signal = BARE[kind]
    required = [f.name for f in fields(signal) if f.default is not None and f.name in json.loads(encode_signal(signal))]
    body = {"v": SIGNAL_VERSION, "kind": kind} | {name: json.loads(encode_signal(signal))[name] for name in required}
    assert decode_signal(json.dumps(body).encode()) == signal


@pytest.mark.parametrize(("kind", "field"), ADDED)
def test_decode_signal_missing_added_field_is_none(kind: str, field: str) -> None:
    body = json.loads(encode_signal(BARE[kind]))
    del body[field]
    assert getattr(decode_signal(json.dumps(body).encode()), field) is None


@pytest.mark.parametrize(("kind", "field"), ADDED)
def test_decode_signal_added_field_round_trips_and_must_be_number(kind: str, field: str) -> None:
    body = json.loads(encode_signal(BARE[kind])) | {field: 4.25}
    found = decode_signal(json.dumps(body).encode())
    assert getattr(found, field) == 4.25
    assert decode_signal(encode_signal(found)) == found
    with pytest.raises(ContractError, match=rf"got `str` - at `\$.{field}`"):
        decode_signal(json.dumps(body | {field: "4"}).encode())
