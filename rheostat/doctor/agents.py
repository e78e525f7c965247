"""The JMX agents of the brokers: whether they answer, and with what rheostat needs."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from rheostat.doctor.findings import Finding, Verdict
from rheostat.settings import Settings
from streaming.collector import jmx
from streaming.collector.jmx import AccessError, Cause, ScrapeError
from streaming.contract import Metric


def agents(settings: Settings, brokers: dict[int, str]) -> Iterator[Finding]:
    urls = settings.collector.agent_urls(brokers)
    try:
        access = settings.collector.access_files().load()
    except AccessError as error:
        yield Finding(
            "access to the JMX agents", Verdict.FAILED, str(error), "correct it: without it the collector does not start"
        )  # fmt: skip
        return

    def names_at(url: str) -> set[str] | Exception:
        try:
            return {sample.name for sample in jmx.scrape(url, settings.collector.timeout_s, access)}
        except (OSError, ValueError) as error:
            return error

    nodes = sorted(urls)
    with ThreadPoolExecutor(settings.collector.scrapes_at_once) as pool:
        answers = pool.map(names_at, [urls[node] for node in nodes])
        for node, names in zip(nodes, answers, strict=True):
            yield _agent(node, urls[node], names, is_broker=node in brokers)
    without = sorted(brokers.keys() - urls.keys())
    if without:
        yield Finding(
            "JMX agents", Verdict.ADVICE, f"none configured for brokers {', '.join(map(str, without))}",
            "set collector.jmx_port or collector.endpoints: without it latency and throttled bytes are not known, and a stall is "
            "raised only where the throttle cannot carry the writes",
        )  # fmt: skip


def _agent(node: int, url: str, names: set[str] | Exception, *, is_broker: bool) -> Finding:
    check = f"JMX agent of node {node}"
    if isinstance(names, ScrapeError) and names.cause in (Cause.TLS, Cause.AUTH):
        return Finding(check, Verdict.FAILED, f"{url}: {names}", "compare the agent's own settings with collector's")
    if isinstance(names, Exception):
        return Finding(
            check, Verdict.FAILED, f"{url}: {names}",
            "start the node with the JMX agent and conf/collectors/jmx-exporter.yaml, or correct collector.endpoints",
        )  # fmt: skip
    if is_broker and Metric.CLIENT_IN not in names:
        return Finding(
            check, Verdict.FAILED, f"{url} answers, but without {Metric.CLIENT_IN}",
            "let the agent use conf/collectors/jmx-exporter.yaml",
        )  # fmt: skip
    return Finding(check, Verdict.OK, f"{len(names)} metrics at {url}")
