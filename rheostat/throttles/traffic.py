"""Measures the traffic that counts against each throttle: from the newest signals, or from the brokers' JMX agents."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

from rheostat.broker_signals import read_broker_signals
from rheostat.config.settings import Settings
from rheostat.throttles.report import Traffic
from streaming.collector import jmx
from streaming.collector.jmx import AgentAccessError
from streaming.shared.contract import Metric, Side
from streaming.shared.kafka.cluster import ClusterClient
from tuner.core.freshness import fresh_signals

SIGNAL_AGE_S_MAX = 60.0
_METRICS: Mapping[str, Side | None] = {
    Metric.LEADER_THROTTLED: Side.LEADER,
    Metric.FOLLOWER_THROTTLED: Side.FOLLOWER,
    Metric.LOG_DIR_COPIED: None,
}


def measure_traffic(
    client: ClusterClient, settings: Settings, now_ms: int, *, log_dirs: Collection[int | None] = ()
) -> Traffic:
    """Returns bytes/s by broker and side; a side that neither a signal nor an agent reports is absent.

    Args:
        log_dirs: brokers whose copies between log directories are limited, so their agents are read in any case.
    """
    signals = fresh_signals(read_broker_signals(client, settings), now_ms, SIGNAL_AGE_S_MAX)
    traffic: dict[tuple[int, Side | None], float] = {}
    for broker, signal in signals.items():
        by_side = {
            Side.LEADER: signal.leader_throttled_bytes_per_s,
            Side.FOLLOWER: signal.follower_throttled_bytes_per_s,
        }
        traffic |= {(broker, side): rate for side, rate in by_side.items() if rate is not None}
    hosts = {endpoint.node: endpoint.host for endpoint in client.brokers()}
    urls = settings.collector.agent_urls(hosts)
    scraped = {b: url for b, url in urls.items() if b in hosts and (b not in signals or b in log_dirs)}
    return {**_scrape(settings, scraped), **traffic}


def _scrape(settings: Settings, urls: Mapping[int, str]) -> dict[tuple[int, Side | None], float]:
    if not urls:
        return {}
    try:
        access = settings.collector.access_files().load()
    except AgentAccessError:
        return {}  # `rheostat doctor` names the file; the traffic is only one column of this report.

    def scrape(url: str) -> dict[Side | None, float]:
        try:
            samples = jmx.read_samples(url, settings.collector.timeout_s, access)
        except (OSError, ValueError):
            return {}  # Shown as "not measured".
        return {_METRICS[s.name]: s.value for s in samples if s.name in _METRICS}

    with ThreadPoolExecutor(settings.collector.scrapes_at_once) as pool:
        answers = zip(urls, pool.map(scrape, urls.values()), strict=True)
        return {(broker, side): rate for broker, rates in answers for side, rate in rates.items()}
