"""Checks whether the brokers' JMX agents answer, and whether their answers have the metrics that rheostat needs."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from rheostat.config.settings import Settings
from rheostat.doctor.findings import Finding, FindingVerdict
from streaming.collector import jmx
from streaming.collector.jmx import AgentAccessError, Cause, ScrapeError
from streaming.shared.contract import Metric

# Shortest timeout of the second attempt: the first scrape of a JVM compiles the agent's code, so it takes longer than later ones.
_SECOND_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class _Answer:
    """The answer of an agent.

    Attributes:
        names: the names of its metrics, or the error.
        asked_again: whether this is the second answer, because the first answer did not come in time.
    """

    names: set[str] | Exception
    asked_again: bool = False


def agents(settings: Settings, brokers: dict[int, str]) -> Iterator[Finding]:
    """Yields a finding for each agent, and one finding for all brokers without an agent.

    Args:
        brokers: the host of each broker.
    """
    urls = settings.collector.agent_urls(brokers)
    try:
        access = settings.collector.access_files().load()
    except AgentAccessError as error:
        yield Finding(
            "access to the JMX agents",
            FindingVerdict.FAILED,
            str(error),
            "correct the file: without it the collector does not start",
        )
        return

    def ask(url: str) -> _Answer:
        """Returns the agent's answer; asks a second time with a longer timeout if the first answer did not come in time."""
        timeout_s = settings.collector.timeout_s
        answer = names_at(url, timeout_s)
        if isinstance(answer, ScrapeError) and answer.cause is Cause.TIMEOUT:
            return _Answer(names_at(url, max(timeout_s, _SECOND_TIMEOUT_S)), asked_again=True)
        return _Answer(answer)

    def names_at(url: str, timeout_s: float) -> set[str] | Exception:
        try:
            return {sample.name for sample in jmx.read_samples(url, timeout_s, access)}
        except (OSError, ValueError) as error:
            return error

    nodes = sorted(urls)
    with ThreadPoolExecutor(settings.collector.scrapes_at_once) as pool:
        answers = pool.map(ask, [urls[node] for node in nodes])
        for node, answer in zip(nodes, answers, strict=True):
            yield _agent(node, urls[node], answer, settings.collector.timeout_s, is_broker=node in brokers)
    without_agent = sorted(brokers.keys() - urls.keys())
    if without_agent:
        yield Finding(
            "JMX agents",
            FindingVerdict.ADVICE,
            f"none configured for brokers {', '.join(map(str, without_agent))}",
            "set collector.jmx_port or collector.endpoints: without agents rheostat knows neither latencies nor "
            "throttled bytes, and raises the throttle of a stalled move only if the throttle is too low for new writes",
        )


def _agent(node: int, url: str, answer: _Answer, timeout_s: float, *, is_broker: bool) -> Finding:
    check, names = f"JMX agent of node {node}", answer.names
    if isinstance(names, ScrapeError) and names.cause in (Cause.TLS, Cause.AUTH):
        return Finding(
            check, FindingVerdict.FAILED, f"{url}: {names}", "compare the agent's settings with those of collector"
        )
    if isinstance(names, Exception):
        return Finding(
            check,
            FindingVerdict.FAILED,
            f"{url}: {names}" + (", asked twice" if answer.asked_again else ""),
            "start the node with the JMX agent and conf/collectors/jmx-exporter.yaml, or correct collector.endpoints",
        )
    if is_broker and Metric.CLIENT_IN not in names:
        return Finding(
            check,
            FindingVerdict.FAILED,
            f"{url} answers, but without {Metric.CLIENT_IN}",
            "start the agent with conf/collectors/jmx-exporter.yaml",
        )
    found = f"{len(names)} metrics at {url}"
    if answer.asked_again:
        found += f", but its first answer took longer than {timeout_s:g} s: normal for a JVM that has just started"
    return Finding(check, FindingVerdict.OK, found)
