"""One of two collectors of a cluster scrapes. The other takes over from one that is killed, and from one that is suspended."""

from __future__ import annotations

import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from hosts_kit import TOPICS, Host, TopicReader, hosts, report, scrape_times_ms, wait_for
from lab_parts import until

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.status.lease_holders import read_lease_holders
from streaming.shared.kafka.cluster import ClusterClient

# The first member of a group gets no answer for this long. Kafka's default is 3 s; a busy machine needs time to look within it.
LAB = LabSpec(brokers=1, settings={"group.initial.rebalance.delay.ms": "8000"})
INTERVAL_S = 1
TAKE_OVER_S_MAX = 13.0  # The session of 8 s, a heartbeat of the standby, and a round.
RECORDS = "rheostat_collector_records_total"


def test_standby_collector_takes_over_from_a_suspended_and_from_a_killed_one(lab: Lab, tmp_path: Path) -> None:
    a, b = (Host(lab, tmp_path, name, "collect", interval_s=INTERVAL_S) for name in ("a", "b"))

    def records(host: Host) -> float:
        return host.metric("collector", RECORDS) or 0.0

    def pid(host: Host) -> int:
        assert host.run is not None
        return host.run.pid

    with hosts(a, b), ClusterClient(lab.kafka_settings(), "test") as client:

        def holders() -> dict[str, Any]:
            found: dict[str, Any] = read_lease_holders(client, "lab", TOPICS)["collector"]
            return found

        def pids() -> list[int]:
            found = holders()
            return [int(name.rpartition(":")[2]) for name in (found["holder"], *found["standbys"]) if name]

        a.start()
        wait_for(lambda: records(a) > 1, 20, "the first collector scrapes", a)
        # "unknown" while Kafka creates the topic of all groups, which takes longer on a busy machine.
        assert holders()["state"] in ("none", "unknown"), "it does not wait for its group"
        wait_for(lambda: holders()["state"] == "active", 20, "it gets the lease", a)
        b.start()
        wait_for(lambda: b.is_standby("collector"), 20, "the second is on standby", b)
        wait_for(lambda: pids() == [pid(a), pid(b)], 20, "the status names the holder and the standby", b)
        with TopicReader(lab, TOPICS.metrics) as metrics:
            before = records(a)
            wait_for(lambda: records(a) > before + 1, 10, "the first goes on while the second joins", a)
            assert records(b) == 0

            a.send(signal.SIGSTOP)
            began = time.monotonic()
            wait_for(lambda: records(b) > 0, TAKE_OVER_S_MAX, "the second takes over from the suspended one", a, b)
            report(f"took over after {time.monotonic() - began:.1f} s")
            a.send(signal.SIGCONT)
            wait_for(lambda: a.is_standby("collector"), 10, "the one that was suspended is on standby", a, b)
            at_wake = records(a)

            b.send(signal.SIGKILL)
            began = time.monotonic()
            wait_for(lambda: records(a) > at_wake, TAKE_OVER_S_MAX, "the first takes over from the killed one", a, b)
            report(f"took over after {time.monotonic() - began:.1f} s")
            until(lambda: any(scrape_times_ms(metrics).values()), 10, "the scrapes are read")
            steps_ms = [later - at for times in scrape_times_ms(metrics).values() for at, later in pairwise(times)]
            assert min(steps_ms) > INTERVAL_S * 1000 / 2, "two collectors have scraped at the same time"
