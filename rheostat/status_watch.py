"""`rheostat status --watch`: what the status page shows, in a terminal: how far, how fast, since when, why.

It looks at the cluster, the signals and the journal by itself, so it works beside a tuner, without one, and where the tuner's
port cannot be reached. What cannot be seen for a moment is said, and the picture before it stays.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rheostat.errors import EXIT_DONE
from rheostat.reassign.given import client_of
from rheostat.reassign.record import following
from rheostat.services import probe, stop_on_signals
from rheostat.settings import Settings
from rheostat.signal_tables import printable
from rheostat.signals import console_of
from rheostat.status import DECISIONS, TURNS, Newest, ordered, status_json
from rheostat.status_plans import Plans
from streaming.kafka import consumer
from streaming.kafka.cluster import ClusterClient, ClusterError
from tuner.actuate.reassignments import KafkaReassignments
from tuner.api.sentences import span
from tuner.decide import words
from tuner.journal.entries import Entry, decode_entry, entry_prefix
from tuner.journal.order_records import decode_orders, orders_key
from tuner.model.cluster import LiveCluster
from tuner.model.orders import Orders
from tuner.observe.live import LiveReader
from tuner.observe.signals import TROUBLE, SignalReader, SignalTail

REFRESH_S = 2.0
SAMPLES = 24  # Of a small chart: a minute or so.
ROWS_MAX = 20  # Brokers; a terminal is no longer than that.
_FULL_EVERY = 15
_SIGNAL_BACKLOG = 400
_JOURNAL_BACKLOG = 2_000
_BARS = "▁▂▃▄▅▆▇█"


class Followed:
    """The journal's newest, as it comes."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._prefixes = {entry_prefix(ring, cluster): ring for ring in ("entry", "turn")}
        self._entries: dict[str, deque[Entry]] = {"entry": deque(maxlen=DECISIONS), "turn": deque(maxlen=TURNS)}
        self._orders = Orders()

    def take(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            return
        if key == orders_key(self._cluster):
            try:
                self._orders = decode_orders(value)
            except ValueError:
                return  # Of another version: `rheostat status` says so; here what was known stays.
        ring = next((ring for prefix, ring in self._prefixes.items() if key.startswith(prefix)), None)
        if ring is not None and (entry := decode_entry(value)) is not None:
            self._entries[ring].append(entry)

    @property
    def newest(self) -> Newest:
        return Newest({ring: list(entries) for ring, entries in self._entries.items()}, self._orders)


class Course:
    """What a single look cannot tell: how much was lacking at most, and how the rates went."""

    def __init__(self) -> None:
        self.peaks: dict[str, float] = {}
        self.rates: dict[tuple[int, str], deque[float | None]] = {}

    def take(self, status: Mapping[str, Any]) -> None:
        lacks = {broker: left for broker, left in status["remaining_bytes"].items() if left is not None}
        moving = bool(status["moves"])
        self.peaks = {b: max(left, self.peaks.get(b, 0.0)) for b, left in lacks.items()} if moving else {}
        for broker in status["brokers"]:
            for side in ("leader", "follower"):
                kept = self.rates.setdefault((broker["broker"], side), deque(maxlen=SAMPLES))
                kept.append(broker[f"{side}_throttled_bytes_per_s"])


def watch(settings: Settings, wait_s: float | None = None) -> int:
    """Until Ctrl-C, or for ``wait_s``.

    Raises:
        UnreachableError: the cluster does not answer at the start.
    """
    probe(settings)
    topics, console = settings.topic_names(), console_of(sys.stdout)
    followed, course = Followed(settings.cluster), Course()
    status: dict[str, Any] | None = None
    with ExitStack() as stack:
        client = stack.enter_context(ClusterClient(settings.kafka, "rheostat-watch"))
        reading = consumer(settings.kafka, "rheostat-watch-signals")
        stack.callback(reading.close, timeout_ms=2000)
        signals = SignalReader(reading, topics.signals, settings.cluster)
        journal = consumer(settings.kafka, "rheostat-watch-journal", isolation_level="read_committed")
        stack.callback(journal.close, timeout_ms=2000)
        tail, looks = SignalTail(journal, topics.journal), LiveReader(client)
        plans = Plans(
            stack.enter_context(following(settings)), KafkaReassignments(stack.enter_context(client_of(settings)))
        )
        stop = stop_on_signals()
        shown = stack.enter_context(Live(console=console, auto_refresh=False)) if console.is_terminal else None
        signals.rewind(_SIGNAL_BACKLOG)
        until_s = None if wait_s is None else time.monotonic() + wait_s
        number, trouble = 0, _followed(followed, tail, first=True)
        while not stop.is_set():
            live = _look(looks, full=number % _FULL_EVERY == 0)
            if isinstance(live, LiveCluster):
                status = status_json(settings, live, signals, followed.newest, round(time.time() * 1000))
                course.take(status)
            else:
                trouble = live
            _show(picture(status, course, objective_ms(settings), trouble, plans.told()), shown, console)
            if until_s is not None and time.monotonic() >= until_s:
                break
            stop.wait(REFRESH_S)
            number += 1
            signals.poll()
            signals.forget_old(round(time.time() * 1000))
            trouble = _followed(followed, tail)
    return EXIT_DONE


def objective_ms(settings: Settings) -> float | None:
    return settings.tuner.objective.latency_ms if settings.tuner.objective is not None else None


def picture(
    status: Mapping[str, Any] | None,
    course: Course,
    latency_ms: float | None,
    trouble: str | None = None,
    plans: Sequence[str] = (),
) -> Group:
    """One screen.

    Args:
        plans: in sentences.
    """
    parts: list[RenderableType] = []
    if status is not None:
        parts += [Text(f"{status['cluster']}: {status['headline']}", style="bold")]
        parts += [Text(printable(line), style="yellow") for line in ordered(status)]
        if bars := _bars(status, course):
            parts.append(bars)
        parts += [Text(printable(line)) for line in plans]
        parts.append(_brokers(status, course, latency_ms))
        parts += _lines("Last decisions", status["last_decisions"])
        parts += _lines("Last seconds of the law", status["last_turns"])
    if trouble is not None:
        parts.append(Text(trouble, style="red"))
    clock = time.strftime("%H:%M:%S", time.gmtime())
    parts.append(Text(f"{clock} UTC, every {REFRESH_S:g} s; Ctrl-C ends", style="dim"))
    return Group(*parts)


def _bars(status: Mapping[str, Any], course: Course) -> Table | None:
    if not course.peaks:
        return None
    made = Table.grid(padding=(0, 2))
    for broker, peak in course.peaks.items():
        left = status["remaining_bytes"][broker]
        done = 1.0 - left / peak if peak > 0 else 1.0
        made.add_row(
            f"onto broker {broker}", ProgressBar(total=1.0, completed=done, width=30), f"{done:.0%}",
            f"{words.size(left)} remain",
        )  # fmt: skip
    if status["eta_s"] is not None:
        made.add_row("done in about", span(status["eta_s"]))
    return made


def _brokers(status: Mapping[str, Any], course: Course, latency_ms: float | None) -> Table:
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("broker", "side", "passes", "throttle", "W", "last minute", "p99"):
        made.add_column(column, justify="left" if column in ("side", "last minute") else "right")
    first = sorted(status["brokers"], key=lambda b: (_idle(b), b["broker"]))
    for broker in first[:ROWS_MAX]:
        sides = [side for side in ("leader", "follower") if broker[f"{side}_rate_bytes_per_s"] is not None]
        for number, side in enumerate(sides or ["–"]):
            limit = broker.get(f"{side}_rate_bytes_per_s")
            made.add_row(
                str(broker["broker"]) if number == 0 else "", side, _rate(broker.get(f"{side}_throttled_bytes_per_s")),
                _rate(limit), _rate(broker.get(f"{side}_keep_up_bytes_per_s")),
                spark(course.rates.get((broker["broker"], side), ()), limit),
                _latency(broker["produce_p99_ms"], latency_ms) if number == 0 else "",
            )  # fmt: skip
    if len(first) > ROWS_MAX:
        made.caption = f"{ROWS_MAX} of {len(first)} brokers, those with a throttle first"
    return made


def spark(rates: Iterable[float | None], limit: float | None) -> str:
    """What passed, against the throttle: a full bar is all of it; a dot is a gap."""
    known = list(rates)
    most = max([limit or 0.0, *(rate for rate in known if rate is not None)], default=0.0)
    if most <= 0:
        return ""
    top = len(_BARS) - 1
    return "".join("·" if rate is None else _BARS[min(top, round(top * rate / most))] for rate in known)


def _lines(title: str, rows: list[dict[str, Any]]) -> list[Text]:
    if not rows:
        return []
    lines = [Text(f"{title}:")]
    for row in reversed(rows):
        at = time.strftime("%H:%M:%S", time.gmtime(row["at_ms"] / 1000))
        failure = f" FAILED: {row['failure']}" if row.get("failure") else ""
        lines.append(Text(printable(f"  {at} {row['text']}{failure}"), style="red" if failure else ""))
    return lines


def _idle(broker: Mapping[str, Any]) -> bool:
    return broker["leader_rate_bytes_per_s"] is None and broker["follower_rate_bytes_per_s"] is None


def _rate(bytes_per_s: float | None) -> str:
    return "–" if bytes_per_s is None else words.rate(bytes_per_s)


def _latency(p99_ms: float | None, latency_ms: float | None) -> Text:
    if p99_ms is None:
        return Text("–")
    if latency_ms is None:
        return Text(f"{p99_ms:.0f} ms")
    return Text(f"{p99_ms:.0f} of {latency_ms:.0f} ms", style="red" if p99_ms > latency_ms else "")


def _look(looks: LiveReader, *, full: bool) -> LiveCluster | str:
    """Or what is to be said instead."""
    try:
        found = looks.look(full=full)
    except ClusterError as error:
        return f"The cluster is not seen now: {error}"
    return found if isinstance(found, LiveCluster) else f"The cluster is not seen now: {found.reason}"


def _followed(followed: Followed, tail: SignalTail, *, first: bool = False) -> str | None:
    """What is to be said where the journal cannot be read for a moment."""
    try:
        for record in tail.rewound(_JOURNAL_BACKLOG) if first else tail.new():
            followed.take(record.key or b"", record.value)
    except TROUBLE as error:
        return f"The journal cannot be read now: {error}"
    return None


def _show(made: Group, shown: Live | None, console: Console) -> None:
    if shown is not None:
        shown.update(made, refresh=True)
    else:
        console.print(made)
        console.file.flush()
