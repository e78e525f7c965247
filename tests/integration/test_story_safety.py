"""One stalled move and three tuners: a dry run that writes nothing, one killed during a ramp, and its successor."""

from __future__ import annotations

import json

import pytest
from lab_parts import rheostat as command
from story_kit import Running, make_topic, moving, running

from rheostat.errors import EXIT_NOT_WELL
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from rheostat.lab.tools import reassign_partitions
from rheostat.status.report import last_entries, read_status
from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterClient
from tuner.core.cluster import LiveCluster
from tuner.runtime.observe.cluster_reader import ClusterReader

THROTTLE = 4_500_000


def rates(client: ClusterClient) -> dict[tuple[int, Side], int]:
    live = ClusterReader(client).snapshot(full=False)
    assert isinstance(live, LiveCluster), live
    return {side: setting.bytes_per_s for side, setting in live.rates.items()}


def status_begins(rheostat: Running, words: str) -> bool:
    return command("status", "--config", rheostat.config).stdout.startswith(words)


@pytest.mark.campaign
def test_dry_run_writes_nothing_and_a_killed_tuner_leaves_nothing() -> None:
    with Lab(LabSpec(brokers=3)) as lab, ClusterClient(lab.kafka_settings(), "test") as client:
        make_topic(lab, "orders", {p: [1, 2] for p in range(4)}, 120)
        with ProducerLoad(
            lab.artifacts, lab.bootstrap_servers, "orders", rate_bytes_per_s=3_000_000, record_bytes=10_000
        ):
            target = {("orders", p): [1, 3] for p in range(4)}
            reassign_partitions(lab.artifacts, lab.bootstrap_servers, target, "--execute", "--throttle", str(THROTTLE))
            before = rates(client)
            assert set(before.values()) == {THROTTLE}

            with running(lab, dry_run=True) as rheostat:
                rheostat.until(
                    "the dry run finds the stall", lambda: rheostat.decided("stalled_below_steady_state"), 120
                )
                settings = rheostat.settings
                told = read_status(settings)
                assert told["moves"]
                assert any(
                    d["reason"] == "stalled_below_steady_state" and d["broker"] == 1 for d in told["last_decisions"]
                )
                status = command("status", "--config", rheostat.config)
                assert status.returncode == EXIT_NOT_WELL, "it has stalled, and no tuner acts"
                lines = status.stdout.splitlines()
                assert lines[0].startswith("Tuner: dry run on ")
                assert any(line.startswith("Stalled: the move onto broker 3 since ") for line in lines)
                assert any(
                    line.startswith("Next: The dry run would do this: broker 1 leader throttle") for line in lines
                )
                assert "(dry run: not executed)" in status.stdout
                asked = (
                    "plan",
                    "estimate",
                    "--config",
                    rheostat.config,
                    "--throttle",
                    "30MB/s",
                    "--write-rate",
                    "1kB/s",
                    "--json",
                )
                planned = json.loads(command(*asked).stdout)
                # The logs were not watched: what clients write is in the signals, as the brokers count it.
                assert planned["kip73"]["bytes_in_per_s_max"] == pytest.approx(3_000_000, rel=0.3)
            wanted = [e for e in last_entries(settings, 100) if e.action == "set"]
            assert wanted
            assert all(e.dry_run and e.kind == "intent" for e in wanted)
            assert rates(client) == before, "a dry run wrote to the cluster"

            with running(lab) as rheostat:
                rheostat.until("a ramp is under way", lambda: rates(client)[(1, Side.LEADER)] > THROTTLE, 90)
                tuner = next(c for c in rheostat.supervisor.children if c.name == "tune")
                assert tuner.process is not None
                tuner.process.kill()
                rheostat.until("it is started again", lambda: tuner.restarts and tuner.process, 30)
                rheostat.until("it says that it acts", lambda: status_begins(rheostat, "Tuner: active on "), 60)
                rheostat.until("the move ends", lambda: not moving(client), 150)
                rheostat.until("nothing is left", lambda: not rates(client), 60)
                live = ClusterReader(client).snapshot(full=True)
                assert isinstance(live, LiveCluster)
                assert live.lists == {}
            assert any(e.action == "restore" and e.kind == "outcome" for e in last_entries(settings, 100))
            ended = command("status", "--config", rheostat.config)
            assert ended.returncode == 0, ended.stdout
            assert ended.stdout.startswith("Tuner: none runs.")
            lines = [line for line in ended.stdout.splitlines() if "the move has ended" in line]
            assert len(lines) == 1, "one line for the end of the move, with its list"
            assert "remove the throttles of broker 1 (" in lines[0]
            assert lines[0].endswith("(done)")
