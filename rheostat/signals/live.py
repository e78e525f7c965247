"""`rheostat signals`: the live signals as the tuner sees them, without a tuner.

Read from the topic, and judged by the tuner's own words for what is newest and what is stale; so what stands here is what a
decision would stand on. A figure that was not measured is a dash, never 0.
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
from rheostat.console.rich_console import console_of, styled
from rheostat.errors import EXIT_DONE, EXIT_NOT_WELL, CommandError, UnreachableError
from rheostat.run.services import probe, stop_on_signals
from rheostat.signals.tables import SHEETS, clock, tables
from streaming.shared.contract import (
    BrokerSignal,
    ContractError,
    MoveSignal,
    Signal,
    decode_signal,
    encode_signal,
    signal_kind,
)
from streaming.shared.kafka import consumer
from streaming.shared.kafka.cluster import ClusterClient, ClusterError, Unreachable
from streaming.shared.units import span_text
from tuner.core.freshness import Freshness, freshness
from tuner.journal.topic_tail import KAFKA_ERRORS, TopicTail
from tuner.runtime.observe.signals_reader import SignalCache

REFRESH_S = 2.0
_BACKLOG_RECORDS = 400
_POLL_MS = 200
_LOOK_AT = "are `rheostat collect` and `rheostat stream`, or `rheostat run`, running?"


@dataclass(frozen=True, slots=True)
class SignalFilter:
    """What was asked for; empty is everything."""

    cluster: str | None = None
    kinds: frozenset[str] = frozenset()
    nodes: frozenset[int] = frozenset()

    def fits(self, signal: Signal) -> bool:
        return (not self.kinds or signal_kind(signal) in self.kinds) and (not self.nodes or _node(signal) in self.nodes)


class SignalsView:
    """What has come of the clusters asked for, the best of every entity."""

    def __init__(self, wanted: SignalFilter) -> None:
        self.unreadable = 0
        self.elsewhere: Counter[str] = Counter()  # Signals by cluster, of clusters not asked for.
        self.newest_ms: int | None = None  # Sample of those asked for, forgotten ones too.
        self._wanted = wanted
        self._by_cluster: dict[str, SignalCache] = {}

    def take(self, value: bytes | None) -> None:
        try:
            signal = decode_signal(value or b"")
        except ContractError:
            self.unreadable += 1
            return
        if self._wanted.cluster not in (None, signal.cluster):
            self.elsewhere[signal.cluster] += 1
            return
        if self._wanted.fits(signal) and not signal.backlog:
            self.newest_ms = max(self.newest_ms or 0, signal.sampled_at_ms)
        self._by_cluster.setdefault(signal.cluster, SignalCache()).take(signal)

    @property
    def backlog(self) -> int:
        return sum(newest.backlog for newest in self._by_cluster.values())

    def every(self, now_ms: int) -> list[Signal]:
        """All that the tuner would still know, by cluster, kind and node."""
        found: list[Signal] = []
        for _, newest in sorted(self._by_cluster.items()):
            newest.forget_old(now_ms)
            found += (signal for _, signal in sorted(newest.brokers.items()))
            found += (signal for _, signal in sorted(newest.moves.items()))
            found += (signal for _, signal in sorted(newest.controllers.items()))
            tenants = sorted(newest.tenants.values(), key=lambda s: (s.node, s.user or "", s.client_id or ""))
            found += tenants
        return found

    def fitting(self, now_ms: int) -> list[Signal]:
        return [signal for signal in self.every(now_ms) if self._wanted.fits(signal)]


def describe_problem(seen: SignalsView, wanted: SignalFilter, topic: str, now_ms: int, age_s_max: float) -> str | None:
    """What is wrong and what to look at; None when at least one signal is fresh."""
    fitting = seen.fitting(now_ms)
    if any(freshness(signal, now_ms, age_s_max) is Freshness.FRESH for signal in fitting):
        return None
    if seen.newest_ms is not None:
        many = "The one signal is" if len(fitting) == 1 else "All signals are"
        ahead_s = (seen.newest_ms - now_ms) / 1000
        if ahead_s > age_s_max:
            return (
                f"{many} stale: the newest has the time {clock(seen.newest_ms)}, {span_text(ahead_s)} ahead of this machine's. "
                "Compare the clocks here and on the brokers."
            )
        return (
            f"{many} stale: the newest is of {clock(seen.newest_ms)}, {span_text(-ahead_s)} ago, and the tuner trusts none older "
            f"than {age_s_max:g} s: {_LOOK_AT}"
        )
    if others := Counter(signal_kind(signal) for signal in seen.every(now_ms)):
        there = ", ".join(f"{count} of kind {kind}" for kind, count in sorted(others.items()))
        return f"No signal fits --kind and --node as given. There are: {there}."
    if seen.backlog:
        return f"Only history so far: {seen.backlog} signals made of records that waited. The stream is catching up."
    if seen.elsewhere:
        names = ", ".join(sorted(seen.elsewhere))
        return (
            f"No signals of cluster {wanted.cluster} in {topic}, only of {names}: see `cluster` in the settings of the "
            "collector, or ask with --all-clusters."
        )
    if seen.unreadable:
        return f"None of {seen.unreadable} records in {topic} can be read: another version of rheostat wrote them."
    return f"There are no signals in {topic}: {_LOOK_AT}"


# -- the commands --------------------------------------------------------------------------------------------------------


def show_once(settings: Settings, wanted: SignalFilter, wait_s: float, *, as_json: bool, wide: bool = False) -> int:
    """One look at what is there already, or after ``wait_s`` of taking in more."""
    topic, age_s_max = settings.topic_names().signals, settings.tuner.signal_age_s_max
    seen = SignalsView(wanted)
    with _tail(settings) as tail:
        try:
            _take(seen, tail.read_recent(_BACKLOG_RECORDS))
            until_s = time.monotonic() + wait_s
            while time.monotonic() < until_s:
                _take(seen, tail.poll(_POLL_MS))
        except KAFKA_ERRORS as error:
            raise CommandError(
                f"The signals cannot be read ({error}): it takes the right Read on Topic {topic}."
            ) from error
    now_ms = _now_ms()
    if as_json:
        out(json.dumps(as_records(seen.fitting(now_ms)), indent=2))
    else:
        console = console_of(sys.stdout)
        for part in render_tables(seen, wanted, now_ms, age_s_max, console, wide=wide):
            console.print(part)
    wrong = describe_problem(seen, wanted, topic, now_ms, age_s_max)
    if wrong is not None:
        tell(wrong)
    return EXIT_DONE if wrong is None else EXIT_NOT_WELL


def watch(settings: Settings, wanted: SignalFilter, wait_s: float | None, *, wide: bool = False) -> int:
    """The same again and again, in place on a terminal, until Ctrl-C or for ``wait_s``."""
    topic, age_s_max = settings.topic_names().signals, settings.tuner.signal_age_s_max
    console, seen = console_of(sys.stdout), SignalsView(wanted)

    def picture(trouble: str | None) -> Group:
        now_ms = _now_ms()
        wrong = trouble or describe_problem(seen, wanted, topic, now_ms, age_s_max)
        foot = styled(f"{clock(now_ms)}, every {REFRESH_S:g} s; Ctrl-C ends", "dim")
        notes = [] if wrong is None else [styled(wrong, "red")]
        return Group(*render_tables(seen, wanted, now_ms, age_s_max, console, wide=wide), *notes, foot)

    with _tail(settings) as tail:
        stop = stop_on_signals()
        trouble = _tried(seen, lambda: tail.read_recent(_BACKLOG_RECORDS))
        until_s = None if wait_s is None else time.monotonic() + wait_s
        with Live(console=console, auto_refresh=False) if console.is_terminal else _Pages(console) as shown:
            while not stop.is_set():
                shown.update(picture(trouble), refresh=True)
                if until_s is not None and time.monotonic() >= until_s:
                    break
                stop.wait(REFRESH_S)
                trouble = _tried(seen, tail.poll)
    fresh = describe_problem(seen, wanted, topic, _now_ms(), age_s_max) is None
    return EXIT_DONE if stop.is_set() or fresh else EXIT_NOT_WELL


def follow(settings: Settings, wanted: SignalFilter, wait_s: float | None) -> int:
    """Every record as it comes, history included, one line of JSON each, until Ctrl-C or for ``wait_s``."""
    seen_any, until_s = False, None if wait_s is None else time.monotonic() + wait_s
    said: str | None = None
    with _tail(settings) as tail:
        stop = stop_on_signals()
        while not stop.is_set() and (until_s is None or time.monotonic() < until_s):
            try:
                records, trouble = list(tail.poll(_POLL_MS)), None
            except KAFKA_ERRORS as error:
                records, trouble = [], f"the signals cannot be read: {error}"
                stop.wait(1.0)
            if trouble not in (None, said):
                tell(str(trouble))
            said = trouble
            for record in records:
                if (line := raw_line(record.value, wanted)) is not None:
                    seen_any = True
                    out(line)
    if seen_any or stop.is_set():
        return EXIT_DONE
    tell(f"No signal that fits came within {wait_s:g} s: {_LOOK_AT}")
    return EXIT_NOT_WELL


def as_records(signals: Iterable[Signal]) -> list[dict[str, Any]]:
    """As they stand in the topic, field by field."""
    return [json.loads(encode_signal(signal)) for signal in signals]


def raw_line(value: bytes | None, wanted: SignalFilter) -> str | None:
    """A record's value on one line; None when it was not asked for. What is no signal is shown with the reason, never hidden."""
    try:
        signal = decode_signal(value or b"")
        line = json.dumps(json.loads(value or b""))
    except (
        ValueError,
        RecursionError,
    ) as error:  # A field that this version ignores may hold what Python does not parse.
        return json.dumps({"unreadable": str(error), "value": (value or b"").decode(errors="backslashreplace")})
    if wanted.cluster not in (None, signal.cluster) or not wanted.fits(signal):
        return None
    return line


@contextmanager
def _tail(settings: Settings) -> Iterator[TopicTail]:
    """
    Raises:
        UnreachableError: the cluster does not answer.
        CommandError: it answers, but the topic is not there, or a right is missing.
    """
    topic = settings.topic_names().signals
    probe(settings)
    with ClusterClient(settings.kafka, "rheostat-signals") as client:
        try:
            there = bool(client.partitions([topic]))
            refused = there and "Read" in client.missing_operations([topic]).get(topic, [])
        except Unreachable as error:
            raise UnreachableError(str(error)) from error
        except ClusterError as error:
            raise CommandError(f"The signals cannot be read: {error}.") from error
    if not there:
        raise CommandError(f"There is no topic {topic} yet, the collector makes it: {_LOOK_AT}")
    if refused:
        raise CommandError(f"The signals cannot be read: missing right: Read on Topic {topic}.")
    reader = consumer(settings.kafka, "rheostat-signals")
    try:
        yield TopicTail(reader, topic)
    finally:
        reader.close(timeout_ms=2000)


def _take(seen: SignalsView, records: Iterable[Any]) -> None:
    for record in records:
        seen.take(record.value)


def _tried(seen: SignalsView, records: Callable[[], Iterable[Any]]) -> str | None:
    """A cluster that is away for a moment ends no watch."""
    try:
        _take(seen, records())
    except KAFKA_ERRORS as error:
        return f"The signals cannot be read now: {error}"
    return None


class _Pages:
    """What ``Live`` is on a terminal, for a file or a pipe: one picture after the other."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __enter__(self) -> _Pages:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, picture: Group, *, refresh: bool) -> None:  # noqa: ARG002 - the shape of Live's
        self._console.print(picture)
        self._console.file.flush()


def render_tables(
    seen: SignalsView, wanted: SignalFilter, now_ms: int, age_s_max: float, console: Console, *, wide: bool = False
) -> list[RenderableType]:
    """A table for every kind that is there; with ``wide`` all its figures, in several where one is wider than the console."""
    fitting = seen.fitting(now_ms)
    parts: list[RenderableType] = []
    for kind, sheet in SHEETS.items():
        if of_kind := [signal for signal in fitting if signal_kind(signal) == kind]:
            clusters = wanted.cluster is None
            parts += tables(sheet, of_kind, now_ms, age_s_max, console, wide=wide, clusters=clusters)
    left_out = [
        f"{count} {what}"
        for count, what in (
            (seen.backlog, "of history left out (made of records that waited)"),
            (seen.unreadable, "unreadable"),
        )
        if count
    ]
    return [*parts, styled(f"Signals besides: {', '.join(left_out)}.")] if left_out else parts


def _node(signal: Signal) -> int:
    return signal.broker if isinstance(signal, BrokerSignal | MoveSignal) else signal.node


def _now_ms() -> int:
    return round(time.time() * 1000)
