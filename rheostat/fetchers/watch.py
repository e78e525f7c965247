"""Runs `rheostat fetchers --watch`: shows the copy rate and the lag of each fetcher thread every 2 s, until Ctrl-C.

The figures are from the sizes of the brokers' logs, so the command needs no agent, stream or tuner. If the cluster does not answer,
the screen says so and keeps its last content.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import ExitStack

from rich.live import Live

from rheostat.config.settings import Settings
from rheostat.console.output import out, tell
from rheostat.console.rich_console import console_for
from rheostat.errors import EXIT_DONE
from rheostat.fetchers.fetcher_setting import read_fetchers
from rheostat.fetchers.live_threads import LiveThreads, LogSizes, analyse_threads, to_record
from rheostat.fetchers.live_view import render
from rheostat.run.services import probe, stop_on_signals
from streaming.shared.kafka.cluster import ClusterClient, ClusterError

REFRESH_S = 2.0


class ThreadsReader:
    """Reads the sizes of all logs repeatedly. From the second call on, ``read`` returns the state of the threads."""

    def __init__(
        self, client: ClusterClient, source: str, window_s: float, thread_bytes_per_s_max: float | None
    ) -> None:
        self._client = client
        self._source = source
        self._logs = LogSizes(window_s)
        self._thread_bytes_per_s_max = thread_bytes_per_s_max

    def read(self) -> LiveThreads | None:
        """Returns the state of all threads; None if only one sample exists.

        Raises:
            ClusterError: the cluster does not answer, or a right is missing.
        """
        states = self._client.partitions()
        brokers = [endpoint.node for endpoint in self._client.brokers()]
        answers = self._client.log_sizes(brokers, [(s.topic, s.partition) for s in states])
        sizes = {broker: answer for broker, answer in answers.items() if not isinstance(answer, ClusterError)}
        if not sizes and answers:
            raise next(answer for answer in answers.values() if isinstance(answer, ClusterError))
        self._logs.add(time.monotonic(), sizes)
        if self._logs.measured_s <= 0:
            return None
        fetchers = read_fetchers(self._client, brokers)
        return analyse_threads(
            self._source, states, fetchers, self._logs, thread_bytes_per_s_max=self._thread_bytes_per_s_max
        )


def watch(
    settings: Settings,
    *,
    as_json: bool,
    window_s: float,
    thread_bytes_per_s_max: float | None = None,
    duration_s: float | None = None,
) -> int:
    """Shows the threads until Ctrl-C, or for ``duration_s`` seconds, and returns the exit code.

    Args:
        as_json: print one JSON object in each line instead.
        window_s: the time over which rates are measured.
        thread_bytes_per_s_max: the highest rate of one thread; None if not known.

    Raises:
        UnreachableError: the cluster does not answer at the start.
    """
    probe(settings)
    console, problem, threads = console_for(sys.stdout), None, None
    with ExitStack() as stack:
        client = stack.enter_context(ClusterClient(settings.kafka, "rheostat-fetchers-watch"))
        source = f"the live cluster at {settings.kafka.bootstrap_servers}"
        reader = ThreadsReader(client, source, window_s, thread_bytes_per_s_max)
        stop = stop_on_signals()
        is_live = console.is_terminal and not as_json
        display = stack.enter_context(Live(console=console, auto_refresh=False)) if is_live else None
        until_s = None if duration_s is None else time.monotonic() + duration_s
        while not stop.is_set():
            try:
                newest, problem = reader.read(), None
            except ClusterError as error:
                newest, problem = None, f"The cluster cannot be read now: {error}"
            threads = newest or threads
            if as_json:
                if newest is not None:
                    out(json.dumps(to_record(newest, round(time.time() * 1000))))
                elif problem is not None:
                    tell(problem)
            else:
                screen = render(threads, problem)
                if display is not None:
                    display.update(screen, refresh=True)
                elif threads is not None or problem is not None:
                    console.print(screen)
                    console.file.flush()
            if until_s is not None and time.monotonic() >= until_s:
                break
            stop.wait(REFRESH_S)
    return EXIT_DONE
