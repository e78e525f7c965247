"""A query of a real Prometheus holds the throttles of a running move on real brokers; a receiver gets signed events.

A stand-in for Cruise Control shows that its concurrency follows the same throttle."""

from __future__ import annotations

import hashlib
import hmac
import json
import signal
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab_parts import Running, rheostat, until
from monitoring_kit import program
from story_kit import make_topic
from test_replay_live import RATE, SOURCE, TARGET, TOPICS, Stream, acts, tuner

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from rheostat.lab.tools import reassign_partitions
from rheostat.run.process import spawn, stop
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.topics import ensure_topics
from tuner.core.throttle_limits import MB
from tuner.runtime.throttle.actuator import KafkaThrottles

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from cruise_control_kit import CruiseControlStandIn
from external_kit import ExternalService

LAB = LabSpec(brokers=2)
SECRET = "a secret of the test"
VETO = "error-budget"


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    """Runs a Prometheus that scrapes ``target`` every second. Yields its address."""
    (port,) = free_ports(1)
    config = folder / "prometheus.yaml"
    job = {"job_name": "switch", "static_configs": [{"targets": [target.removeprefix("http://")]}]}
    config.write_text(yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}))
    process = spawn(
        [
            program("prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={folder}/prometheus",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        log=folder / "prometheus.log",
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        stop(process, grace_s=10)


def asked(port: int, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def reasons(port: int) -> set[str]:
    return {decision["reason"] for decision in json.loads(asked(port, "/status") or "{}").get("last_decisions", ())}


def settings(lab: Lab, port: int, address: str, hook: str, secret: Path, cruise_control: str) -> dict[str, Any]:
    link = {"in_bytes_per_s": 40 * MB, "out_bytes_per_s": 40 * MB}
    check = {"name": VETO, "prometheus": address, "query": "rheostat_test_switch", "above": 0.5}
    body: dict[str, Any] = json.loads(
        lab_config(
            lab, http={"port": port}, objective={"latency_ms": 50}, capacity=link,
            rate_bytes_per_s_max=3 * MB, rate_bytes_per_s_min=100_000,
            vetoes=[{**check, "interval_s": 1, "answer_valid_s": 5}],
            cruise_control={
                "url": cruise_control, "concurrency": "act", "rate_per_movement_bytes_per_s": 100_000, "interval_s": 1
            },
            webhooks=[{"name": "chat", "url": hook, "secret_file": str(secret), "timeout_s": 2}],
        )
    )  # fmt: skip
    return body


def signed_events(receiver: ExternalService) -> list[str]:
    """Returns the events, each with a signature that fits its body."""
    events = []
    for _, headers, body in receiver.requests:
        digest = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        assert headers["x-rheostat-signature"] == f"sha256={digest}"
        events.append(json.loads(body)["event"])
    return events


def rate_stays(run: Running, stream: Stream, throttles: KafkaThrottles, duration_s: float) -> None:
    until_s = time.monotonic() + duration_s
    while time.monotonic() < until_s:
        stream.goes_on()
        assert run.alive(), run.said()[-3000:]
        assert throttles.read_rates([SOURCE])[SOURCE] == RATE
        time.sleep(0.2)  # The pace of the signals, not a wait for anything.


@pytest.mark.campaign
def test_query_of_prometheus_holds_a_running_move(lab: Lab, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    file, secret = tmp_path / "rheostat.yaml", tmp_path / "secret"
    secret.write_text(f"{SECRET}\n")
    switch = ExternalService(b"rheostat_test_switch 1\n")
    switch.content_type = "text/plain; version=0.0.4"
    receiver = ExternalService(b"")
    make_topic(lab, "orders", {0: [1]}, 30)
    with ExitStack() as cleanups:
        cleanups.enter_context(switch.serving())
        cleanups.enter_context(receiver.serving())
        cruise_control = cleanups.enter_context(CruiseControlStandIn(movements=6).serving())
        address = cleanups.enter_context(prometheus(tmp_path, switch.url))
        body = settings(lab, port, address, f"{receiver.url}/in", secret, cruise_control.url)
        file.write_text(json.dumps(body, indent=1))
        client = cleanups.enter_context(ClusterClient(lab.kafka_settings(), "test"))
        ensure_topics(client, TOPICS)
        throttles = KafkaThrottles(client)
        run, stream = cleanups.enter_context(tuner(lab, file, tmp_path / "tune.log"))
        until(lambda: acts(run, stream), 30, "the tuner acts")
        target = {("orders", 0): (2,)}
        reassign_partitions(lab.artifacts, lab.bootstrap_servers, target, "--execute", "--throttle", str(RATE))

        def is_vetoed() -> bool:
            stream.goes_on()
            return "vetoed" in reasons(port) and f'rheostat_veto_unknown{{cluster="lab",veto="{VETO}"}} 0\n' in asked(
                port, "/metrics"
            )

        until(is_vetoed, 30, "the query vetoes")
        rate_stays(run, stream, throttles, 8.0)
        decision = next(d for d in json.loads(asked(port, "/status"))["last_decisions"] if d["reason"] == "vetoed")
        assert f"not raised: veto {VETO}: its value 1 is above 0.5" in decision["text"]

        assert set(cruise_control.changes) == {RATE // 100_000}, "the concurrency fits the throttle, and does not rise"

        # A bad URL is named with its line, and changes nothing.
        bad = json.loads(json.dumps(body).replace(address, "htp://prometheus"))
        file.write_text(json.dumps(bad, indent=1))
        run.process.send_signal(signal.SIGHUP)
        until(lambda: "tuner.vetoes[0].prometheus: expected a URL" in run.said(), 20, "the bad URL is named")
        rate_stays(run, stream, throttles, 2.0)
        file.write_text(json.dumps(body, indent=1))

        switch.body = b"rheostat_test_switch 0\n"

        def is_raised() -> bool:
            stream.goes_on()
            rate = throttles.read_rates([SOURCE])[SOURCE]
            return isinstance(rate, int) and rate > RATE

        until(is_raised, 40, "the law raises the throttle after the veto")

        until(lambda: stream.goes_on() or cruise_control.movements > RATE // 100_000, 30, "the concurrency follows")

        # A query without a value holds again, for a limited time.
        switch.body = b"# nothing\n"

        def is_unknown() -> bool:
            stream.goes_on()
            return "no valid answer: the query returns no series" in asked(port, "/status")

        until(is_unknown, 40, "the missing value holds")
        until(lambda: {"found", "acted"} <= set(signed_events(receiver)), 20, "the receiver has signed events")
        ids = [json.loads(event)["id"] for _, _, event in receiver.requests]
        assert len(ids) == len(set(ids))
        assert throttles.read_rates([TARGET])[TARGET] is not None
        assert run.end(signal.SIGTERM, 20) == 0
    done = rheostat("replay", "--config", file, "--from", "-15m", "--json")
    assert done.returncode == 0, done.stderr + done.stdout
    replayed = json.loads(done.stdout)
    assert replayed["same"]
    assert replayed["cycles"]["same"] >= 3
    assert replayed["steering_ticks"]["different"] == 0
