"""Reads the JMX agents of all nodes at once, for commands that need the controller's metrics without a stream."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from rheostat.config.settings import Settings
from rheostat.errors import BadInputError
from streaming.collector import jmx
from streaming.collector.jmx import AgentAccessError
from streaming.shared.contract import Sample


class AgentReader:
    """Reads the agents that ``collector`` names. Not thread-safe."""

    def __init__(self, settings: Settings, hosts: Mapping[int, str]) -> None:
        """
        Args:
            hosts: broker id → host.

        Raises:
            BadInputError: a file with the agents' credentials cannot be used.
        """
        try:
            self._access = settings.collector.access_files().load()
        except AgentAccessError as error:
            raise BadInputError(str(error)) from error
        self._urls = settings.collector.agent_urls(hosts)
        self._timeout_s = settings.collector.timeout_s
        self._pool = ThreadPoolExecutor(min(settings.collector.scrapes_at_once, max(1, len(self._urls))))

    @property
    def are_known(self) -> bool:
        """Whether the settings name any agent."""
        return bool(self._urls)

    def read(self) -> dict[int, list[Sample]]:
        """Returns the samples of each node that answers, by node id."""

        def scrape(url: str) -> list[Sample] | None:
            try:
                return jmx.read_samples(url, self._timeout_s, self._access)
            except (OSError, ValueError):
                return None  # The caller sees that the node is absent.

        answers = zip(self._urls, self._pool.map(scrape, self._urls.values()), strict=True)
        return {node: samples for node, samples in answers if samples is not None}

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
