"""Runs `rheostat signals`: reads the live signals from their topic and shows them; no tuner needs to run.

The command uses the tuner's code to choose the newest signal of each entity and to detect stale signals. Therefore it shows the
signals that a tuner would use. A value that was not measured is shown as a dash, never as 0.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live

from rheostat.config.settings import Settings
from rheostat.console.output import out, tell
from rheostat.console.rich_console import console_for, styled
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL, CommandError, UnreachableError
from rheostat.metrics_cluster import metrics_consumer
from rheostat.run.services import probe_kafka, stop_on_signals
from rheostat.signals.tables import SHEETS, clock, tables
from streaming.shared.contract import (
    BrokerSignal,
    ContractError,
    MoveSignal,
    ReplicationSignal,
    Signal,
    decode_signal,
    encode_signal,
    signal_kind,
)
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, Unreachable
from streaming.shared.units import span_text
from tuner.core.freshness import Freshness, freshness
from tuner.journal.topic_tail import KAFKA_ERRORS, TopicTail
from tuner.runtime.observe.signals_reader import SignalCache

REFRESH_S = 2.0
_POLL_MS = 200
_CHECK_SERVICES = "are `rheostat collect` and `rheostat stream`, or `rheostat run`, running?"


@dataclass(frozen=True, slots=True)
class SignalFilter:
    """The filter that the options set. An empty set, or cluster None, selects all signals."""

    cluster: str | None = None
    kinds: frozenset[str] = frozenset()
    nodes: frozenset[int] = frozenset()

    def fits(self, signal: Signal) -> bool:
        """Returns whether the kind and the node of a signal match the filter; ``SignalsView`` compares the cluster."""
        fits_kind = not self.kinds or signal_kind(signal) in self.kinds
        fits_node = not self.nodes or _node(signal) in self.nodes
        return fits_kind and fits_node


class SignalsView:
    """The newest signal of every entity, for the clusters that match the filter.

    Attributes:
        unreadable: number of records that this version cannot read as signals.
        other_clusters: number of signals of each cluster that does not match the filter.
        newest_ms: sample time of the newest matching signal, even if the signal was forgotten since.
    """

    def __init__(self, signal_filter: SignalFilter) -> None:
        self.unreadable = 0
        self.other_clusters: Counter[str] = Counter()
        self.newest_ms: int | None = None
        self._filter = signal_filter
        self._by_cluster: dict[str, SignalCache] = {}

    def add(self, value: bytes | None) -> None:
        """Adds the value of one record."""
        try:
            signal = decode_signal(value or b"")
        except ContractError:
            self.unreadable += 1
            return
        if self._filter.cluster not in (None, signal.cluster):
            self.other_clusters[signal.cluster] += 1
            return
        if self._filter.fits(signal) and not signal.backlog:
            self.newest_ms = max(self.newest_ms or 0, signal.sampled_at_ms)
        self._by_cluster.setdefault(signal.cluster, SignalCache()).add(signal)

    @property
    def backlog(self) -> int:
        """The number of signals made from old records that waited during an outage."""
        return sum(cache.backlog for cache in self._by_cluster.values())

    def usable(self, now_ms: int) -> list[Signal]:
        """Returns all signals that a tuner would still use, by cluster, kind and node."""
        signals: list[Signal] = []
        for _, cache in sorted(self._by_cluster.items()):
            cache.forget_old(now_ms)
            signals += (signal for _, signal in sorted(cache.brokers.items()))
            signals += (signal for _, signal in sorted(cache.moves.items()))
            signals += (signal for _, signal in sorted(cache.replication.items()))
            signals += (signal for _, signal in sorted(cache.controllers.items()))
            tenants = sorted(cache.tenants.values(), key=lambda s: (s.node, s.user or "", s.client_id or ""))
            signals += tenants
        return signals

    def matching(self, now_ms: int) -> list[Signal]:
        """Returns the usable signals that match the filter."""
        return [signal for signal in self.usable(now_ms) if self._filter.fits(signal)]


def describe_problem(
    view: SignalsView, signal_filter: SignalFilter, topic: str, now_ms: int, age_s_max: float
) -> str | None:
    """Returns a text about the problem and what to check; None if at least one signal is fresh."""
    matching = view.matching(now_ms)
    if any(freshness(signal, now_ms, age_s_max) is Freshness.FRESH for signal in matching):
        return None
    if view.newest_ms is not None:
        subject = "The one signal is" if len(matching) == 1 else "All signals are"
        ahead_s = (view.newest_ms - now_ms) / 1000  # Negative: the signal is in the past.
        if ahead_s > age_s_max:
            return (
                f"{subject} stale: the newest has the time {clock(view.newest_ms)}, {span_text(ahead_s)} ahead of this machine's "
                "clock. Compare the clocks here and on the brokers."
            )
        return (
            f"{subject} stale: the newest is from {clock(view.newest_ms)}, {span_text(-ahead_s)} ago, and the tuner uses no "
            f"signal older than {span_text(age_s_max)}: {_CHECK_SERVICES}"
        )
    if by_kind := Counter(signal_kind(signal) for signal in view.usable(now_ms)):
        counts = ", ".join(f"{count} of kind {kind}" for kind, count in sorted(by_kind.items()))
        return f"No signal matches the given --kind and --node. There are: {counts}."
    if view.backlog:
        return f"Only signals of backlog records so far ({view.backlog}). The stream is catching up."
    if view.other_clusters:
        names = ", ".join(sorted(view.other_clusters))
        return (
            f"No signals of cluster {signal_filter.cluster} in {topic}, only of {names}: check `cluster` in the settings of the "
            "collector, or give --all-clusters."
        )
    if view.unreadable:
        return f"None of {view.unreadable} records in {topic} can be read: another version of rheostat wrote them."
    return f"There are no signals in {topic}: {_CHECK_SERVICES}"


# -- the commands --------------------------------------------------------------------------------------------------------


def show_once(
    settings: Settings, signal_filter: SignalFilter, duration_s: float, *, as_json: bool, wide: bool = False
) -> int:
    """Reads new signals for ``duration_s`` seconds, shows all recent signals, and returns the exit code."""
    topic, age_s_max = settings.topic_names().signals, settings.tuner.signal_age_s_max
    view = SignalsView(signal_filter)
    with _open_tail(settings) as tail:
        try:
            _add_records(view, tail.read_recent())
            until_s = time.monotonic() + duration_s
            while time.monotonic() < until_s:
                _add_records(view, tail.poll(_POLL_MS))
        except KAFKA_ERRORS as error:
            raise CommandError(
                f"The signals cannot be read ({error}): the command needs the permission Read on Topic {topic}."
            ) from error
    now_ms = _now_ms()
    if as_json:
        out(json.dumps(as_records(view.matching(now_ms)), indent=2))
    else:
        console = console_for(sys.stdout)
        for part in render_tables(view, signal_filter, now_ms, age_s_max, console, wide=wide):
            console.print(part)
    problem = describe_problem(view, signal_filter, topic, now_ms, age_s_max)
    if problem is not None:
        tell(problem)
    return EXIT_DONE if problem is None else EXIT_NOT_WELL


def watch(settings: Settings, signal_filter: SignalFilter, duration_s: float | None, *, wide: bool = False) -> int:
    """Shows the signals every ``REFRESH_S``, in place on a terminal, until Ctrl-C or for ``duration_s``. Returns the exit code."""
    topic, age_s_max = settings.topic_names().signals, settings.tuner.signal_age_s_max
    console, view = console_for(sys.stdout), SignalsView(signal_filter)

    def frame(trouble: str | None) -> Group:
        now_ms = _now_ms()
        problem = trouble or describe_problem(view, signal_filter, topic, now_ms, age_s_max)
        footer = styled(f"{clock(now_ms)}, every {REFRESH_S:g} s; Ctrl-C ends", "dim")
        notes = [] if problem is None else [styled(problem, "red")]
        return Group(*render_tables(view, signal_filter, now_ms, age_s_max, console, wide=wide), *notes, footer)

    with _open_tail(settings) as tail:
        stop = stop_on_signals()
        trouble = _try_add(view, lambda: tail.read_recent())
        until_s = None if duration_s is None else time.monotonic() + duration_s
        with Live(console=console, auto_refresh=False) if console.is_terminal else _Pages(console) as display:
            while not stop.is_set():
                display.update(frame(trouble), refresh=True)
                if until_s is not None and time.monotonic() >= until_s:
                    break
                stop.wait(REFRESH_S)
                trouble = _try_add(view, tail.poll)
    has_fresh_signal = describe_problem(view, signal_filter, topic, _now_ms(), age_s_max) is None
    return EXIT_DONE if stop.is_set() or has_fresh_signal else EXIT_NOT_WELL


def follow(settings: Settings, signal_filter: SignalFilter, duration_s: float | None) -> int:
    """Prints every record as it arrives, backlog included, until Ctrl-C or for ``duration_s``. Returns the exit code."""
    has_printed = False
    until_s = None if duration_s is None else time.monotonic() + duration_s
    last_trouble: str | None = None
    with _open_tail(settings) as tail:
        stop = stop_on_signals()
        while not stop.is_set() and (until_s is None or time.monotonic() < until_s):
            try:
                records = list(tail.poll(_POLL_MS))
            except KAFKA_ERRORS as error:
                trouble = f"the signals cannot be read: {error}"
                if trouble != last_trouble:
                    tell(trouble)
                last_trouble = trouble
                stop.wait(1.0)
                continue
            last_trouble = None
            for record in records:
                if (line := raw_line(record.value, signal_filter)) is not None:
                    has_printed = True
                    out(line)
    if has_printed or stop.is_set():
        return EXIT_DONE
    tell(f"No matching signal arrived within {span_text(duration_s or 0.0)}: {_CHECK_SERVICES}")
    return EXIT_NOT_WELL


def as_records(signals: Iterable[Signal]) -> list[dict[str, Any]]:
    """Returns the signals as the topic stores them, field by field."""
    return [json.loads(encode_signal(signal)) for signal in signals]


def raw_line(value: bytes | None, signal_filter: SignalFilter) -> str | None:
    """Returns a record's value on one line; for an unreadable record also the reason; None if it does not match the filter."""
    try:
        signal = decode_signal(value or b"")
        line = json.dumps(json.loads(value or b""))
    except (ValueError, RecursionError) as error:
        return json.dumps({"unreadable": str(error), "value": (value or b"").decode(errors="backslashreplace")})
    if signal_filter.cluster not in (None, signal.cluster) or not signal_filter.fits(signal):
        return None
    return line


@contextmanager
def _open_tail(settings: Settings) -> Iterator[TopicTail]:
    """Opens a reader of the signals topic.

    Raises:
        UnreachableError: the cluster does not answer.
        CommandError: the topic does not exist, or a right is missing.
    """
    topic = settings.topic_names().signals
    probe_kafka(settings.metrics_kafka)
    with ClusterClient(settings.metrics_kafka, "rheostat-signals") as client:
        try:
            exists = bool(client.partitions([topic]))
            is_refused = exists and "Read" in client.missing_operations([topic]).get(topic, [])
        except Unreachable as error:
            raise UnreachableError(str(error)) from error
        except ClusterError as error:
            raise CommandError(f"The signals cannot be read: {error}.") from error
    if not exists:
        raise CommandError(f"The topic {topic} does not exist yet, and the collector creates it: {_CHECK_SERVICES}")
    if is_refused:
        raise CommandError(f"The signals cannot be read: missing right: Read on Topic {topic}.")
    reader = metrics_consumer(settings, "rheostat-signals")
    try:
        yield TopicTail(reader, topic)
    finally:
        reader.close(timeout_ms=2000)


def _add_records(view: SignalsView, records: Iterable[Any]) -> None:
    for record in records:
        view.add(record.value)


def _try_add(view: SignalsView, read: Callable[[], Iterable[Any]]) -> str | None:
    """Adds the records to the view. Returns an error as text, because an unreachable cluster does not end --watch."""
    try:
        _add_records(view, read())
    except KAFKA_ERRORS as error:
        return f"The signals cannot be read now: {error}"
    return None


class _Pages:
    """Replaces ``Live`` for a file or a pipe: prints one frame after the other."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __enter__(self) -> _Pages:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, frame: Group, *, refresh: bool) -> None:  # noqa: ARG002 - the signature of Live.update
        self._console.print(frame)
        self._console.file.flush()


def render_tables(
    view: SignalsView,
    signal_filter: SignalFilter,
    now_ms: int,
    age_s_max: float,
    console: Console,
    *,
    wide: bool = False,
) -> list[RenderableType]:
    """Returns the tables of all kinds; with ``wide`` all values, in several tables if one is wider than the console."""
    matching = view.matching(now_ms)
    blocks: list[RenderableType] = []
    for kind, sheet in SHEETS.items():
        if of_kind := [signal for signal in matching if signal_kind(signal) == kind]:
            has_cluster_column = signal_filter.cluster is None
            blocks += tables(
                sheet, of_kind, now_ms, age_s_max, console, wide=wide, has_cluster_column=has_cluster_column
            )
    left_out = []
    if view.backlog:
        left_out.append(f"signals of backlog records: {view.backlog}")
    if view.unreadable:
        left_out.append(f"unreadable records: {view.unreadable}")
    if left_out:
        blocks.append(styled(f"Not shown: {', '.join(left_out)}."))
    return blocks


def _node(signal: Signal) -> int:
    return signal.broker if isinstance(signal, BrokerSignal | MoveSignal | ReplicationSignal) else signal.node


def _now_ms() -> int:
    return round(time.time() * 1000)
