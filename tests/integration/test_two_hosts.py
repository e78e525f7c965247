"""Two hosts that run all parts: one is killed, one is suspended, and both are upgraded one after the other under a running move."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hosts_kit import (
    TOPICS,
    Host,
    TopicReader,
    first_fresh_signal_s,
    hosts,
    missing_windows,
    now_ms,
    repeated_signals,
    report,
    scrape_times_ms,
    wait_for,
)
from lab_parts import until
from story_kit import make_topic, moving

from rheostat.config.settings import load_settings
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from rheostat.lab.tools import reassign_partitions
from rheostat.status.report import last_entries
from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterClient
from tuner.control.throttle.objective import ControlLimits
from tuner.core.cluster import BrokerSide, LiveCluster
from tuner.core.throttle_limits import MB
from tuner.runtime.observe.cluster_reader import ClusterReader

FRESH_S_MAX = 20.0
INTERVAL_MS = 5000
SETTLED_S_MAX = 240.0  # Also on a machine that is busy with other tests.
SUSPENDED_S = 15.0


@contextmanager
def two_hosts(lab: Lab, folder: Path, **tuner: Any) -> Iterator[tuple[Host, Host]]:
    """Yields two hosts: all parts of the first are active, all of the second are on standby and warm."""
    a, b = (Host(lab, folder, name, **tuner) for name in ("a", "b"))
    with hosts(a, b):
        a.start()
        wait_for(lambda: a.is_active(), SETTLED_S_MAX, "the first host is active", a)
        wait_for(lambda: has_signals(a), SETTLED_S_MAX, "the first host makes signals", a)
        start_standby(b)
        yield a, b


def start_standby(host: Host) -> None:
    host.start()
    wait_for(lambda: is_warm_standby(host), SETTLED_S_MAX, "the host is on standby, and its stream is warm", host)


def is_warm_standby(host: Host) -> bool:
    assert host.run is not None
    return host.is_standby() and any("the standby is warm" in line["event"] for line in host.run.lines())


def has_signals(host: Host) -> bool:
    return (host.metric("stream", "rheostat_stream_batches_total") or 0) > 3


def check_records(signals: TopicReader, metrics: TopicReader, until_ms: int, *, handovers: int) -> None:
    """Checks that no scrape is doubled, and that no window is lost or told again with worse values.

    Args:
        handovers: how often another collector took over. Its first scrape may come soon after the last one of its predecessor.
    """
    by_node_ms = [[later - at for at, later in pairwise(times)] for times in scrape_times_ms(metrics).values()]
    steps_ms = [step_ms for node_ms in by_node_ms for step_ms in node_ms]
    repeated, worse = repeated_signals(signals)
    lost = missing_windows(signals, metrics, until_ms)
    report(
        f"scrapes: at least {min(steps_ms)} ms and at most {max(steps_ms)} ms apart; signals told again: {repeated}, "
        f"with worse values: {len(worse)}; windows lost: {len(lost)}"
    )
    assert not worse, "\n".join(worse)
    # Of two collectors' scrapes, every second one follows within half of the interval. A late scrape of one collector also makes
    # a step shorter, on a busy machine by a second.
    short = [[step_ms for step_ms in node_ms if step_ms < 0.6 * INTERVAL_MS] for node_ms in by_node_ms]
    assert all(len(node_ms) <= handovers for node_ms in short), f"two collectors have scraped at the same time: {short}"
    assert lost == []


@pytest.mark.campaign
@pytest.mark.timeout(1200)
def test_standby_host_takes_over_all_parts_from_a_killed_and_a_suspended_host(tmp_path: Path) -> None:
    with (
        Lab(LabSpec(brokers=3)) as lab,
        two_hosts(lab, tmp_path) as (a, b),
        TopicReader(lab, TOPICS.signals) as signals,
        TopicReader(lab, TOPICS.metrics) as metrics,
    ):

        def fresh_after(number: signal.Signals, host: Host, successor: Host) -> float:
            host.send(number)
            at_ms = now_ms()
            wait_for(lambda: first_fresh_signal_s(signals, at_ms) is not None, 60, "fresh signals", host, successor)
            found_s = first_fresh_signal_s(signals, at_ms)
            assert found_s is not None
            report(f"{number.name} of host {host.name}: first fresh signal after {found_s:.1f} s")
            wait_for(lambda: successor.is_active(), 30, "all parts of the successor are active", successor)
            return found_s

        killed_s = fresh_after(signal.SIGKILL, a, b)
        until(lambda: has_signals(b), SETTLED_S_MAX, "signals go on")
        start_standby(a)
        suspended_s = fresh_after(signal.SIGSTOP, b, a)
        until_ms = now_ms() + round(max(0.0, SUSPENDED_S - suspended_s) * 1000)
        until(lambda: now_ms() >= until_ms, 60, "the suspension is over")
        b.send(signal.SIGCONT)
        wait_for(lambda: b.is_standby(), 30, "the host that was suspended is on standby", b)
        woken_ms = now_ms()
        wait_for(
            lambda: any(value["window_end_ms"] > woken_ms for _, _, value in list(signals.records)), 30, "goes on", a
        )
        check_records(signals, metrics, woken_ms, handovers=2)
        assert max(killed_s, suspended_s) <= FRESH_S_MAX


THROTTLE, CEILING = 1_500_000, 3_000_000
SOURCE = (1, Side.LEADER)
LIMITS = ControlLimits()
STEERED: dict[str, Any] = {
    "objective": {
        "latency_ms": 5_000
    },  # On two shared cores latency says more about the machine than about replication.
    "capacity": {"in_bytes_per_s": 60 * MB, "out_bytes_per_s": 60 * MB},
    "rate_bytes_per_s_max": CEILING,
    "rate_bytes_per_s_min": CEILING // 10,
}


class RateWatch:
    """Notes the throttles of the move whenever ``look`` is called."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self.seen: list[tuple[int, dict[BrokerSide, int]]] = []  # With the time of the look, epoch ms.

    def look(self) -> dict[BrokerSide, int]:
        live = ClusterReader(self._client).snapshot(full=False)
        assert isinstance(live, LiveCluster), live
        rates = {side: rate.bytes_per_s for side, rate in live.rates.items() if rate.is_set_on_broker}
        self.seen.append((now_ms(), rates))
        return rates

    def lowest(self) -> tuple[int, int]:
        """Returns the lowest throttle of the move's source, in bytes/s, and when it was seen."""
        return min((rates.get(SOURCE, 0), at_ms) for at_ms, rates in self.seen)


def signal_age_s_max(signals: TopicReader, since_ms: int) -> float:
    """Returns how old the newest signal of the move's source was at most, in seconds."""
    newest_ms, ages_s = since_ms, [0.0]
    for at_ms, _, value in list(signals.records):
        if value["kind"] == "broker" and value["broker"] == SOURCE[0] and at_ms > since_ms:
            ages_s.append((at_ms - newest_ms) / 1000)
            newest_ms = max(newest_ms, value["sampled_at_ms"])
    return max(ages_s)


@pytest.mark.campaign
@pytest.mark.timeout(1800)
def test_rolling_upgrade_of_two_hosts_changes_nothing_for_a_running_move(tmp_path: Path) -> None:
    with Lab(LabSpec(brokers=3)) as lab, ClusterClient(lab.kafka_settings(), "test") as client:
        make_topic(lab, "orders", {p: [1, 2] for p in range(4)}, 1_200)
        with (
            two_hosts(lab, tmp_path, **STEERED) as (a, b),
            ProducerLoad(lab.artifacts, lab.bootstrap_servers, "orders", rate_bytes_per_s=300_000, record_bytes=10_000),
            TopicReader(lab, TOPICS.signals) as signals,
            TopicReader(lab, TOPICS.metrics) as metrics,
        ):
            watch = RateWatch(client)
            target = {("orders", p): [1, 3] for p in range(4)}
            reassign_partitions(lab.artifacts, lab.bootstrap_servers, target, "--execute", "--throttle", str(THROTTLE))
            wait_for(lambda: watch.look()[SOURCE] >= 0.9 * CEILING, 120, "the tuner has raised the throttle", a)
            watch.seen.clear()
            began_ms = now_ms()

            def watched(probe: Any) -> bool:
                watch.look()
                return bool(probe())

            for leaving, staying in ((a, b), (b, a)):
                leaving.stop()
                wait_for(
                    lambda host=staying: watched(host.is_active), 60, "all parts of the other host are active", staying
                )
                leaving.start()
                wait_for(
                    lambda host=leaving: watched(lambda: is_warm_standby(host)),
                    SETTLED_S_MAX,
                    "it is on standby",
                    leaving,
                )
                wait_for(lambda host=staying: watched(lambda: has_signals(host)), 60, "signals go on", staying)
            assert moving(client), "the move has ended before the upgrade: make it longer"
            lowest, lowest_at_ms = watch.lowest()
            entries = last_entries(load_settings(a.config, {}), 2000)
            reasons = {entry.reason for entry in entries if entry.at_ms >= began_ms}
            age_s_max = signal_age_s_max(signals, began_ms)
            report(
                f"{len(watch.seen)} looks; lowest throttle {lowest / MB:.1f} MB/s of {CEILING / MB:.1f} after "
                f"{(lowest_at_ms - began_ms) / 1000:.0f} s; oldest signal {age_s_max:.0f} s; {reasons}"
            )
            check_records(signals, metrics, now_ms() - 10_000, handovers=2)
            # A tuner that has just begun may steer a little lower until it has measured for some cycles. If the machine is so busy
            # that signals are away for longer than the law's limit, the law lowers the rate to protect clients.
            decay = LIMITS.decay_per_s ** max(0.0, age_s_max - LIMITS.decay_age_s)
            assert lowest >= decay * CEILING / 2
            assert "stale_decay" not in reasons
