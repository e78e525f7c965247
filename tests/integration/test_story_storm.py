"""Tenants storm a real controller: quotas share its capacity through failover and a pause, and release removes them."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from lab_parts import rheostat, until
from story_kit import Running, running

from benchmarks.controllers.storm import Storm, StormTenant
from rheostat.lab.cluster import Lab, LabSpec
from streaming.shared.contract.quotas import Default, QuotaEntity
from streaming.shared.kafka.quotas import QuotaClient

LAB = LabSpec(brokers=2, controllers=3, heap_mb=320)
STORMS = ("storm-0", "storm-1")
BEFORE, PERSONS = 900.0, 3.0
STORM_S_MAX = 150.0

pytestmark = [pytest.mark.campaign]


def of(client_id: str) -> QuotaEntity:
    return QuotaEntity(client_id=client_id)


@contextmanager
def storm(lab: Lab) -> Iterator[Storm]:
    """Two tenants create far more topics than their quotas allow, one creates few, until the block ends."""
    tenants = [
        StormTenant(
            name,
            5,
            topics_per_request=2,
            partitions=4,
            replication_factor=2,
            topics_max=40,
            connections=2,
            honours=honours,
        )
        for name, honours in zip(STORMS, (True, False), strict=True)
    ] + [StormTenant("calm", 0.5, partitions=2, replication_factor=2, topics_max=2, connections=1)]
    blown = Storm(lab.bootstrap_servers.split(","))
    done = threading.Event()
    thread = threading.Thread(target=blown.run, args=(tenants, STORM_S_MAX, done), name="storm", daemon=True)
    thread.start()
    try:
        yield blown
    finally:
        done.set()
        thread.join(timeout=40)
        assert not thread.is_alive()


def active_controller(lab: Lab) -> int:
    with lab.admin("story") as admin:
        return int(admin.describe_metadata_quorum()["topics"][0]["partitions"][0]["leader_id"])


def rows(parts: Running) -> dict[str, dict[str, object]]:
    status = parts.status()
    found = (status or {}).get("quotas") or {"tenants": []}
    return {str(row["client_id"]): row for row in found["tenants"]}


def test_storm_is_shared_through_failover_and_cleaned_up(lab: Lab) -> None:
    quotas = QuotaClient(lab.kafka_settings(), "story-looks")
    stood = {of(name): BEFORE for name in STORMS}
    assert quotas.alter_mutation_quotas(dict(stood)) == dict.fromkeys(stood)
    until(lambda: quotas.mutation_quotas() == stood, 10, "the quotas that stood before")
    asked = {"default_entity": "client-id", "tenants": [{"client_id": "storm-1", "weight": 2}]}
    with running(lab, mutation_quota=asked) as parts:
        parts.until("ready", lambda: (parts.status() or {}).get("ready"), 120)
        with storm(lab) as blown:
            # Each has a quota of its own, and the storms are held back by it; the calm one is not.
            parts.until(
                "quotas of ours for all",
                lambda: all(quotas.mutation_quotas().get(of(n), BEFORE) != BEFORE for n in STORMS),
                60,
            )
            parts.until(
                "both storms are held back", lambda: all(rows(parts).get(n, {}).get("throttled") for n in STORMS), 60
            )
            said = json.loads(rheostat("quotas", "--json", "--config", parts.config).stdout)
            table = {row["client_id"]: row for row in said["tenants"]}
            assert table["storm-0"]["managed"]
            assert not table["calm"]["throttled"]
            assert table["storm-1"]["throttled"]
            assert table["storm-1"]["demand_per_s"] > table["calm"]["demand_per_s"] > 0
            assert table["storm-1"]["rule"] == 0

            # A person's word is left alone, and known for one once no broker can be behind any more.
            assert quotas.alter_mutation_quotas({of("storm-0"): PERSONS}) == {of("storm-0"): None}
            parts.until(
                "it is said to be somebody's",
                lambda: rows(parts).get("storm-0", {}).get("reason") == "externally_owned",
                60,
            )

            # The controller dies in the middle of it.
            was = active_controller(lab)
            node = lab.nodes[was].process
            assert node is not None
            node.send_signal(signal.SIGKILL)
            node.wait(timeout=10)
            until(lambda: active_controller(lab) not in (was, -1), 40, "another controller is active")
            before_s = blown.now_s()
            parts.until(
                "the new controller's books are read", lambda: rows(parts).get("storm-1", {}).get("throttled"), 90
            )
            parts.until(
                "requests go on", lambda: any(r.ended_s > before_s and not r.failed for r in blown.requests), 30
            )
            # A broker may be behind: it is let go of once none can be any more.
            parts.until(
                "the person's is ours no more", lambda: not rows(parts).get("storm-0", {}).get("managed", True), 60
            )
            stands, table = quotas.mutation_quotas(), rows(parts)
            assert stands[of("storm-0")] == PERSONS
            assert set(stands) >= {of(n) for n in (*STORMS, "calm")} | {of_everybody()}
            assert table["storm-1"]["managed"]
            assert stands[of("storm-1")] == pytest.approx(table["storm-1"]["quota_per_s"], rel=0.5)
            assert stands[of("storm-1")] < BEFORE

        done = rheostat("release", "--yes", "--config", parts.config, timeout_s=120)
        assert done.returncode == 0, done.stdout + done.stderr
        # What stood before stands again, or what a person has made of it since; nothing else is left.
        left = {of("storm-0"): PERSONS, of("storm-1"): BEFORE}
        until(lambda: quotas.mutation_quotas() == left, 10, "nothing of ours is left")
    quotas.close()


def of_everybody() -> QuotaEntity:
    return QuotaEntity(client_id=Default.DEFAULT)
