"""Records of cordons: what rheostat manages survives a restart, and an unreadable record stops the tuner."""

from __future__ import annotations

import json

import pytest

from tuner.control.cordon.model import CordonMemory, OwnedCordon
from tuner.journal.cordon_records import RecoveredCordons, changed_cordons, encode_cordon
from tuner.journal.unreadable import UnreadableRecord

OWNED = OwnedCordon("plan-1", ("/a", "/b"), ("/c",), was_set=True, is_written=True)


def test_records_rebuild_the_memory() -> None:
    memory = CordonMemory({3: OWNED, 4: OwnedCordon("plan-1", ())})
    recovered = RecoveredCordons("main")
    for key, value in changed_cordons("main", memory, CordonMemory()).items():
        assert recovered.apply(key, value)
    assert recovered.memory == memory
    assert memory.brokers == [3]


def test_lifted_cordon_becomes_a_tombstone() -> None:
    changes = changed_cordons("main", CordonMemory(), CordonMemory({3: OWNED}))
    assert changes == {b"cordon|main|3": None}
    recovered = RecoveredCordons("main")
    recovered.apply(b"cordon|main|3", encode_cordon(3, OWNED))
    recovered.apply(b"cordon|main|3", None)
    assert recovered.memory == CordonMemory()
    assert not recovered.apply(b"cordon|other|3", b"{}")


@pytest.mark.parametrize("change", [{"broker": -1}, {"directories": None}, {"v": 99}])
def test_unreadable_record_blocks_the_tuner(change: dict[str, object]) -> None:
    body = json.loads(encode_cordon(3, OWNED) or b"") | change
    with pytest.raises(ValueError, match=r"broker|directories|version"):
        RecoveredCordons("main").apply(b"cordon|main|3", json.dumps(body).encode())
    assert UnreadableRecord(b"cordon|main|3", 1, 1, "").blocks
