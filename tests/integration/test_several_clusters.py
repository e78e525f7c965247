"""One `rheostat run` for several clusters: a cluster that is frozen, or away at the start, delays no other."""

from __future__ import annotations

import json
import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hosts_kit import TOPICS, TopicReader, now_ms, report
from lab_parts import RHEOSTAT, rheostat, running, until
from several_clusters_kit import Installation, frozen, installation, labs
from story_kit import make_topic

from rheostat.config.settings import load_file
from rheostat.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_UNREACHABLE, BadInputError
from rheostat.lab.cluster import Lab
from rheostat.lab.node import free_ports
from rheostat.lab.tools import reassign_partitions
from rheostat.run.probe_clusters import probe_clusters
from streaming.shared.kafka.cluster import ClusterClient
from tuner.core.cluster import LiveCluster
from tuner.runtime.observe.cluster_reader import ClusterReader

FROZEN_S = 45.0  # Longer than each time-out of a request.
GAP_S_MAX = 12.0  # Between two signals of a broker; 5 s usually, and 10 s if a scrape is late.
DECIDED_S_MAX = 25.0
RATE_BYTES_PER_S = 500_000


def raised_s(lab: Lab, topic: str) -> float:
    """Moves a topic from broker 1 to 2 at a low rate, and returns the seconds until the tuner has raised the rate."""
    options = ("--execute", "--throttle", str(RATE_BYTES_PER_S))
    reassign_partitions(lab.artifacts, lab.bootstrap_servers, {(topic, 0): [2]}, *options)
    began_s = time.monotonic()
    with ClusterClient(lab.kafka_settings(), "test") as client:
        reader = ClusterReader(client)

        def rates() -> list[float]:
            live = reader.snapshot(full=True)
            assert isinstance(live, LiveCluster), live
            return [rate.bytes_per_s for rate in live.rates.values() if rate.is_set_on_broker]

        until(lambda: any(rate > RATE_BYTES_PER_S for rate in rates()), 120, f"the tuner raises the rate of {topic}")
        took_s = time.monotonic() - began_s
        until(lambda: not client.reassignments(), 120, f"the move of {topic} has ended")
        until(lambda: not rates(), 120, f"the throttle of {topic} is gone")
    return took_s


def gaps_s(signals: TopicReader, cluster: str, since_ms: int) -> list[float]:
    """Returns the seconds between the broker signals of a cluster since a time, by Kafka's time."""
    times = sorted(
        at
        for at, _, value in list(signals.records)
        if value["kind"] == "broker" and value["cluster"] == cluster and value["broker"] == 1 and at >= since_ms
    )
    return [(later - at) / 1000 for at, later in pairwise([since_ms, *times, now_ms()])]


def cycle_gap_s(made: Installation, cluster: str, during_s: float) -> float:
    """Watches the tuner of a cluster, and returns its longest time without a cycle."""
    end_s, longest_s = time.monotonic() + during_s, 0.0
    while time.monotonic() < end_s:
        status: dict[str, Any] | None = made.status(cluster)
        assert status is not None
        longest_s = max(longest_s, (status["now_ms"] - status["last_cycle_at_ms"]) / 1000)
        time.sleep(0.5)  # Samples, at a fixed rate.
    return longest_s


@pytest.mark.campaign
@pytest.mark.timeout(1200)
def test_frozen_cluster_delays_no_signal_and_no_decision_of_another(tmp_path: Path) -> None:
    with labs(1, 1, 2) as (obs, east, west):
        for topic in ("before", "during"):
            make_topic(west, topic, {0: [1]}, 60)
        made = installation(tmp_path, obs, {"east": east, "west": west})
        with made.running(tmp_path / "run.log") as run:
            made.until_ready(run, ["east", "west"])
            with TopicReader(obs, TOPICS.signals) as signals:
                until(lambda: signals.records, 60, "signals")
                before_s = raised_s(west, "before")
                with frozen(east):
                    frozen_ms = now_ms()
                    during_s = raised_s(west, "during")
                    longest_cycle_s = cycle_gap_s(made, "west", FROZEN_S)
                    gap_s = max(gaps_s(signals, "west", frozen_ms))
                    paused = rheostat("pause", "--config", made.config, "--cluster", "west")
                    unreachable = rheostat("pause", "--config", made.config, "--cluster", "east")
                    east_status = made.status("east")
                report(
                    f"rate raised after {before_s:.1f} s, with a frozen neighbour after {during_s:.1f} s; longest time without a "
                    f"signal {gap_s:.1f} s, without a cycle {longest_cycle_s:.1f} s"
                )
                assert during_s <= DECIDED_S_MAX
                assert gap_s <= GAP_S_MAX
                assert longest_cycle_s <= GAP_S_MAX
                assert (paused.returncode, unreachable.returncode) == (EXIT_DONE, EXIT_UNREACHABLE), paused.stderr
                assert east_status is not None
                assert not east_status["ready"]
                until(lambda: made.is_ready("east"), 120, "east is ready again")
                until(lambda: gaps_s(signals, "east", now_ms() - 15_000)[-1] < GAP_S_MAX, 60, "east has signals again")


@pytest.mark.campaign
@pytest.mark.timeout(600)
def test_cluster_away_at_the_start_does_not_keep_others_from_starting(tmp_path: Path) -> None:
    with labs(1, 1) as (obs, west):
        made = installation(tmp_path, obs, {"west": west, "obs": obs, "away": west})
        entry = made.body["clusters"]["away"]
        entry |= {"kafka": {"bootstrap_servers": f"127.0.0.1:{free_ports(1)[0]}"}, "collector": {}}
        del made.body["clusters"]["obs"]["kafka"]
        made.config.write_text(yaml.safe_dump(made.body))
        with made.running(tmp_path / "run.log") as run:
            made.until_ready(run, ["west", "obs"])
            away = made.status("away")
            assert away is not None
            assert not away["ready"]
            said = [line for line in run.lines() if line.get("event", "").startswith("a cluster does not answer")]
            assert [line["cluster"] for line in said] == ["away"]
            status = made.status("west")
            assert status is not None
            assert {other["cluster"]: other["page"] for other in status["other_clusters"]} == {
                name: f"http://127.0.0.1:{made.ports[name]}" for name in ("obs", "away")
            }
            shown = rheostat("status", "--config", made.config, "--cluster", "west", "--json")
            assert json.loads(shown.stdout)["cluster"] == "west", shown.stderr
            doctor = rheostat("doctor", "--config", made.config, "--cluster", "west", "--json", timeout_s=120)
            failed = [finding for finding in json.loads(doctor.stdout) if finding["verdict"] == "failed"]
            assert failed == []


def test_commands_name_the_clusters_if_none_is_chosen(tmp_path: Path) -> None:
    with labs(1) as (obs,):
        made = installation(tmp_path, obs, {"east": obs, "west": obs})
        for name, port in zip(("east", "west"), free_ports(2), strict=True):
            made.body["clusters"][name] |= {"kafka": {"bootstrap_servers": f"127.0.0.1:{port}"}, "collector": {}}
        made.config.write_text(yaml.safe_dump(made.body))
        for options, expected in (
            ([], "has several clusters: choose one of them with --cluster: east, west"),
            (["--cluster", "north"], "has no cluster of this name; its clusters are east, west"),
        ):
            done = rheostat("status", "--config", made.config, *options)
            assert done.returncode == EXIT_BAD_INPUT
            assert expected in done.stderr
            assert "Traceback" not in done.stderr
        done = rheostat("run", "--config", made.config)
        assert done.returncode == EXIT_UNREACHABLE
        assert "Cluster east: No broker answers" in done.stderr


def test_tuner_that_starts_without_its_metrics_cluster_carries_out_orders(tmp_path: Path) -> None:
    with labs(1) as (east,):
        made = installation(tmp_path, east, {"east": east})
        made.body["kafka"] = {"bootstrap_servers": f"127.0.0.1:{free_ports(1)[0]}"}
        made.config.write_text(yaml.safe_dump(made.body))
        options = ("--config", made.config, "--cluster", "east")
        with running(*RHEOSTAT, "tune", *options, log=tmp_path / "tune.log") as tune:
            until(lambda: (made.status("east") or {}).get("active"), 60, lambda: f"it is active: {tune.said()[-2000:]}")
            done = rheostat("pause", *options)
            assert done.returncode == EXIT_DONE, done.stdout + done.stderr
            # After the first attempt, which takes kafka.request_timeout_s.
            until(lambda: "the metrics cluster does not answer" in tune.said(), 60, "the log names the cause")
            assert tune.end(signal.SIGTERM) == 0


def test_two_names_for_one_kafka_cluster_are_refused(tmp_path: Path) -> None:
    with labs(1) as (obs,):
        made = installation(tmp_path, obs, {"east": obs})
        port = obs.bootstrap_servers.rpartition(":")[2]
        made.body["clusters"]["east"]["kafka"] = {"bootstrap_servers": f"localhost:{port}"}
        made.config.write_text(yaml.safe_dump(made.body))
        with pytest.raises(BadInputError, match="obs and east are the same Kafka cluster"):
            probe_clusters(load_file(made.config, {}))
