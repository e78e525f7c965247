"""A broker stops during a change of the fetcher threads: the command notices it and restores the old values everywhere."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka.admin import NewTopic
from lab_parts import RHEOSTAT, running, until

from rheostat.lab.cluster import Lab
from rheostat.lab.keeper import lab_config
from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.kafka.fetchers import FetcherClient

pytestmark = [pytest.mark.campaign]

KEY = "num.replica.fetchers"


def test_fetcher_change_is_undone_when_a_broker_stops(
    lab: Lab, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    config = tmp_path / "rheostat.yaml"
    config.write_text(lab_config(lab))
    with lab.admin() as admin:
        admin.create_topics([NewTopic("copied", 8, 3)])
    with FetcherClient(lab.kafka_settings(), "test") as client:
        until(lambda: len([s for s in client.partitions(["copied"]) if len(s.isr) == 3]) == 8, 30, "all is in sync")
        before = values(client)
        log = tmp_path / "apply.log"
        ask = (
            "fetchers",
            "-c",
            config,
            "--by",
            "partitions",
            "--apply",
            "--yes",
            "--value",
            "4",
            "--observe-for",
            "60s",
        )
        with running(*RHEOSTAT, *ask, log=log) as run:
            # The last step has been read back from all of them, and is being watched.
            until(lambda: "watched for" in run.said().partition(f"{KEY}=4 on")[2], 150, "the last step is watched")
            process = lab.nodes[4].process
            assert process is not None
            process.send_signal(signal.SIGSTOP)
            try:
                until(lambda: not run.alive(), 120, "it ends", every_s=0.5)
            finally:
                process.send_signal(signal.SIGCONT)
        assert run.process.returncode == 1
        assert "have a replica that is not in sync, 0 had before the change" in run.said()
        until(lambda: values(client) == before, 60, "all have what they had, the one that stopped too", every_s=1)
        assert client.default_config(KEY) is None
    record_property("told", "seen by the replicas out of sync; put back, at the broker that stopped as well")


def values(client: FetcherClient) -> dict[int, str]:
    found = client.broker_configs([1, 2, 3, 4], [KEY])
    return {b: a[KEY].value if KEY in a else "1" for b, a in found.items() if not isinstance(a, ClusterError)}
