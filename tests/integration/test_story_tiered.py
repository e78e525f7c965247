"""A tiered topic of 1 GB moves, of which 0.9 GB are only in the remote storage, with every process as shipped.

rheostat expects the bytes of the local log, and sees no stall. A second move stalls because the remote storage is away, and the
decisions say so.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab_parts import rheostat
from story_kit import Running, moving, running
from tiered_kit import RemoteStorage, local_size, make_tiered_topic

from rheostat.lab.cluster import Lab
from rheostat.lab.load import ProducerLoad
from rheostat.lab.tools import reassign_partitions
from streaming.shared.kafka.cluster import ClusterClient
from tuner.core.throttle_limits import MB

TOTAL, LOCAL, SEGMENT = 1_000 * MB, 90 * MB, 10 * MB
THROTTLE, WRITES = round(1.5 * MB), round(0.25 * MB)
READY_S_MAX = 420.0
MOVE_S_MAX = 240.0
ERROR_MAX = 0.25
# The slope of the remaining bytes is known after one window of the stream; the end is too near to be judged in percent.
JUDGED_FROM_S, JUDGED_UNTIL_LEFT_S = 30.0, 10.0


@dataclass(frozen=True, slots=True)
class Reading:
    """The status of the tuner at one time."""

    at_s: float
    eta_s: float | None
    reasons: frozenset[str]


def follow(parts: Running, client: ClusterClient, topic: str) -> tuple[list[Reading], float]:
    """Returns the readings of the status until the move ends, and its end; both in seconds since now."""
    began_s = time.monotonic()
    readings: list[Reading] = []

    def ended() -> bool:
        if not moving(client):
            return True
        status = parts.status()
        if status is not None:
            reasons = frozenset(d["reason"] for d in status["last_decisions"])
            ends_at_ms = status["ends_at_ms"]
            eta_s = None if ends_at_ms is None else ends_at_ms / 1000 - time.time()
            readings.append(Reading(time.monotonic() - began_s, eta_s, reasons))
        return False

    parts.until(f"the move of {topic} ends", ended, MOVE_S_MAX)
    return readings, time.monotonic() - began_s


def estimated_s(parts: Running, topic: str, folder: Path) -> float:
    """Returns the time that ``rheostat plan estimate`` expects for the move onto broker 2."""
    plan = folder / f"{topic}.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [2]}]}))
    done = rheostat(
        "plan", "estimate", plan, "--config", parts.config, "--throttle", f"{THROTTLE / MB}MB/s", "--write-rate",
        f"{WRITES / MB}MB/s", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return float(json.loads(done.stdout)["per_side"]["time_s"])


@pytest.mark.campaign
@pytest.mark.timeout(1500)
def test_story_of_a_tiered_topic(tmp_path: Path) -> None:
    storage = RemoteStorage.compile(tmp_path / "remote")
    with (
        Lab(storage.lab_spec()) as lab,
        ClusterClient(lab.kafka_settings(), "test") as client,
        running(lab) as parts,
    ):
        size = make_tiered_topic(lab, client, "orders", total_bytes=TOTAL, local_bytes=LOCAL, segment_bytes=SEGMENT)
        make_tiered_topic(lab, client, "payments", total_bytes=TOTAL // 20, local_bytes=SEGMENT, segment_bytes=SEGMENT)
        assert 0.8 * LOCAL < size < 0.12 * TOTAL
        parts.until("rheostat is ready", lambda: (s := parts.status()) and s["ready"], READY_S_MAX)

        expected_s = estimated_s(parts, "orders", tmp_path)
        with ProducerLoad(lab.artifacts, lab.bootstrap_servers, "orders", rate_bytes_per_s=WRITES):
            reassign_partitions(
                lab.artifacts, lab.bootstrap_servers, {("orders", 0): [2]}, "--execute", "--throttle", str(THROTTLE)
            )
            readings, took_s = follow(parts, client, "orders")
        assert abs(expected_s - took_s) <= ERROR_MAX * took_s, (expected_s, took_s)
        judged = [r for r in readings if JUDGED_FROM_S <= r.at_s <= took_s - JUDGED_UNTIL_LEFT_S]
        errors = [abs(r.eta_s - (took_s - r.at_s)) / (took_s - r.at_s) for r in judged if r.eta_s is not None]
        assert len(errors) > len(judged) / 2 > 5, (len(errors), len(judged))
        assert sorted(errors)[len(errors) // 2] <= ERROR_MAX, sorted(errors)
        seen = frozenset[str]().union(*(r.reasons for r in readings))
        assert not [reason for reason in seen if "stalled" in reason], seen
        parts.until("the tuner has seen the end", lambda: (s := parts.status()) and not s["reassigning_partitions"], 30)

        storage.take_away()
        try:
            reassign_partitions(
                lab.artifacts, lab.bootstrap_servers, {("payments", 0): [2]}, "--execute", "--throttle", str(THROTTLE)
            )
            decision = parts.until("the stall is named", lambda: parts.decided("stalled_remote_storage"), 120)
            assert "the state of the remote log" in decision["text"]
            assert local_size(client, 2, "payments") == 0
        finally:
            storage.bring_back()
        parts.until("the move ends after the remote storage has come back", lambda: not moving(client), 90)
