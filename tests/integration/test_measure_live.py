"""`rheostat quotas measure` on a real broker: Kafka counts tenants for a while, and no quota is left."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_parts import RHEOSTAT, rheostat, running, until

from benchmarks.controllers.storm import Storm, StormTenant
from rheostat.config.settings import load_settings
from rheostat.errors import EXIT_DONE, EXIT_INTERRUPTED, EXIT_NOT_CONFIRMED
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.orders.send import read_orders
from streaming.shared.contract.quotas import QuotaEntity
from streaming.shared.kafka.quotas import QuotaClient
from tuner.control.mutation_quota.default_quota import EVERY_PAIR
from tuner.control.mutation_quota.metering_trial import TRIAL_PER_S
from tuner.core.operator_orders import QuotaTrialKind

LAB = LabSpec(brokers=1)
OTHER = QuotaEntity(client_id="other")
ENV = {"RHEOSTAT_COLLECTOR__TIMEOUT_S": "10s"}  # Agents answer late while other tests load the machine.


def seen_none(quotas: QuotaClient) -> None:
    """A broker may show a removed quota for a moment."""
    until(lambda: not quotas.mutation_quotas(), 10, lambda: f"no quota: {quotas.mutation_quotas()}")


def measure(config: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return rheostat("quotas", "measure", "--config", config, *options, env=ENV, timeout_s=120)


@pytest.fixture
def quotas(lab: Lab) -> Iterator[QuotaClient]:
    client = QuotaClient(lab.kafka_settings(), "test-quotas")
    yield client
    client.alter_mutation_quotas(dict.fromkeys(client.mutation_quotas()))
    client.close()


def test_measurement_shows_busy_tenants_and_removes_its_quota(
    lab: Lab, lab_config_file: Path, quotas: QuotaClient
) -> None:
    ended = threading.Event()
    storm = Storm(lab.bootstrap_servers.split(","))
    tenants = [StormTenant("busy", 5, partitions=4, topics_max=5), StormTenant("calm", 1, topics_max=5)]
    thread = threading.Thread(target=storm.run, args=(tenants, 60.0, ended), daemon=True)
    thread.start()
    try:
        done = measure(lab_config_file, "--for", "20s", "--yes", "--json")
    finally:
        ended.set()
        thread.join(timeout=60)
    assert done.returncode == EXIT_DONE, done.stderr
    rows = {row["client_id"]: row for row in json.loads(done.stdout)}
    assert list(rows)[:2] == ["busy", "calm"]
    assert rows["busy"]["user"] == "ANONYMOUS"
    # 5 requests/s create 20 partitions/s, and as many are deleted; Kafka's mean begins with the quota.
    assert 8 < rows["busy"]["peak_per_s"] < 80
    assert rows["calm"]["peak_per_s"] < 0.3 * rows["busy"]["peak_per_s"]
    seen_none(quotas)
    trial = read_orders(load_settings(lab_config_file)).orders.trials[QuotaTrialKind.MEASURE]
    assert trial.until_ms - trial.at_ms != 50_000, "the end is on record, and not only its latest time"


def test_measurement_is_not_started_without_confirmation(lab_config_file: Path, quotas: QuotaClient) -> None:
    assert measure(lab_config_file).returncode == EXIT_NOT_CONFIRMED
    seen_none(quotas)


def test_existing_quota_keeps_its_precedence(lab_config_file: Path, quotas: QuotaClient) -> None:
    quotas.alter_mutation_quotas({OTHER: 5.0})
    until(lambda: quotas.mutation_quotas() == {OTHER: 5.0}, 10, "the quota")
    done = measure(lab_config_file, "--for", "3s", "--yes", "--json")
    assert (done.returncode, "Nothing is set" in done.stderr) == (EXIT_DONE, True), done.stderr
    assert quotas.mutation_quotas() == {OTHER: 5.0}


def test_interrupted_measurement_removes_its_quota(lab_config_file: Path, quotas: QuotaClient, tmp_path: Path) -> None:
    command = (*RHEOSTAT, "quotas", "measure", "--config", lab_config_file, "--for", "10m", "--yes")
    with running(*command, log=tmp_path / "log", env=ENV) as run:
        until(lambda: quotas.mutation_quotas() == {EVERY_PAIR: TRIAL_PER_S}, 60, lambda: f"the quota: {run.said()}")
        assert run.end(signal.SIGINT, timeout_s=60) == EXIT_INTERRUPTED
    seen_none(quotas)


def test_killed_measurement_is_found_and_cleared(lab_config_file: Path, quotas: QuotaClient, tmp_path: Path) -> None:
    command = (*RHEOSTAT, "quotas", "measure", "--config", lab_config_file, "--for", "5s", "--yes")
    with running(*command, log=tmp_path / "log", env=ENV) as run:
        until(lambda: quotas.mutation_quotas() == {EVERY_PAIR: TRIAL_PER_S}, 60, lambda: f"the quota: {run.said()}")
        run.end(signal.SIGKILL)
    beside = measure(lab_config_file, "--yes")
    assert "Another `rheostat quotas measure` is running now" in beside.stderr

    def is_reported() -> bool:
        shown = rheostat("quotas", "--config", lab_config_file, "--json")
        return bool(json.loads(shown.stdout)["metering_left"])

    until(is_reported, 60, "the quota counts as left when the time of the command is over", every_s=2.0)
    doctor = rheostat("doctor", "--config", lab_config_file, "--json")
    found = [f for f in json.loads(doctor.stdout) if f["check"] == "leftovers of quota measurements"]
    assert [f["do"] for f in found] == ["`rheostat quotas measure --clear` removes it"]
    cleared = measure(lab_config_file, "--clear", "--yes")
    assert cleared.returncode == EXIT_DONE, cleared.stderr
    seen_none(quotas)
