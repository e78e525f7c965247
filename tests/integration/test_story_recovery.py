"""A broker comes back with an empty disk on a real cluster, with every process as shipped.

The same recovery runs twice: with ``tuner.recovery: watch``, and after a reload with ``act``, where the tuner is killed in the
midst. The picture of both is recovery.svg in the folder of the test.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import signal
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from story_kit import Running, make_topic, running

from rheostat.demo.probe import LatencyProbe
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from rheostat.line_chart import COLOURS, Line, Mark, Panel, svg, write_plot
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.units import rate_text, size_text
from tuner.core.cluster import LiveCluster
from tuner.core.throttle_limits import MB
from tuner.runtime.observe.cluster_reader import ClusterReader

TOPIC, PARTITIONS, MEGABYTES = "orders", 6, 1_200
WRITES_BYTES_PER_S = 2 * MB
CEILING = 25 * MB
RETURNING = 3
LIMITS = {
    "objective": {
        "latency_ms": 5_000
    },  # On two shared cores latency says more about the machine than about replication.
    "capacity": {"in_bytes_per_s": 60 * MB, "out_bytes_per_s": 60 * MB},
    "rate_bytes_per_s_max": CEILING,
    "rate_bytes_per_s_min": 2 * MB,
}
IN_FORCE_S_MAX = 12.0
READY_S_MAX = 420.0
IN_SYNC_S_MAX = 300.0


@dataclass
class Recovery:
    """A recovery as it is observed, in seconds since the start of the broker's process."""

    at_s: list[float] = field(default_factory=list)
    copied_bytes: list[float] = field(default_factory=list)
    highest_rate_bytes_per_s: list[float] = field(default_factory=list)  # NaN: no throttle is set.
    marks: list[Mark] = field(default_factory=list)
    headlines: set[str] = field(default_factory=set)  # The page's words about the progress.
    texts: dict[str, set[str]] = field(default_factory=dict)  # Of the decisions, by reason.
    lag_reasons: set[str] = field(default_factory=set)  # Of the diagnoses of the broker's lag.
    latencies: list[tuple[float, float]] = field(default_factory=list)  # When sent, milliseconds.

    @property
    def in_sync_s(self) -> float:
        return self.at_s[-1]

    @property
    def first_fetch_s(self) -> float:
        return next(at_s for at_s, copied in zip(self.at_s, self.copied_bytes, strict=True) if copied)

    @property
    def throttled_s(self) -> float:
        pairs = zip(self.at_s, self.highest_rate_bytes_per_s, strict=True)
        return next((at_s for at_s, rate in pairs if math.isfinite(rate)), math.nan)


def headline(parts: Running) -> str:
    """Returns the first sentences of the status page; empty while no tuner answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{parts.port}/api/v1/status", timeout=2) as answer:
            return str(json.loads(answer.read())["headline"])
    except OSError:
        return ""


def reload_with_act(parts: Running) -> None:
    """Sets ``tuner.recovery: act`` in the settings file, and waits until the tuner uses it."""
    config = json.loads(parts.config.read_text())
    config["tuner"]["recovery"] = "act"
    parts.config.write_text(json.dumps(config))
    starts = parts.log.read_text().count('"event": "active"')
    tuner = next(child for child in parts.supervisor.children if child.name == "tune")
    assert tuner.process is not None
    tuner.process.send_signal(signal.SIGHUP)
    parts.until(
        "the reloaded tuner is active", lambda: parts.log.read_text().count('"event": "active"') > starts, READY_S_MAX
    )
    parts.until("rheostat is ready again", lambda: (s := parts.status()) and s["ready"], READY_S_MAX)


def lag_reasons(parts: Running) -> set[str] | None:
    """Returns the reasons in the diagnoses of the broker's lag; None while there are no diagnoses."""
    status = parts.status()
    lagging = status["replication_lag"]["lagging"] if status else None
    return None if lagging is None else {row["reason"] for row in lagging if row["broker"] == RETURNING}


class WipedBroker:
    """Broker 3 of the lab: killed, wiped, started, and observed until every replica is in sync."""

    def __init__(self, lab: Lab, client: ClusterClient, probe: LatencyProbe) -> None:
        self._lab = lab
        self._client = client
        self._reader = ClusterReader(client)
        self._probe = probe

    def live(self) -> LiveCluster | None:
        live = self._reader.snapshot(full=True)
        return live if isinstance(live, LiveCluster) else None

    def is_clean(self) -> bool:
        """Returns whether no throttle is left, neither a rate nor a list."""
        live = self.live()
        return live is not None and not live.rates and not live.lists

    def out_of_sync(self) -> int:
        return sum(len(state.isr) < len(state.replicas) for state in self._client.partitions([TOPIC]))

    def kill_and_wipe(self, parts: Running) -> None:
        node = self._lab.nodes[RETURNING]
        node.kill()
        parts.until("the broker's replicas are out of sync", lambda: self.out_of_sync() == PARTITIONS, 60)
        # The lag of the first load was diagnosed before the broker died, and the next evaluation may be 15 s away.
        parts.until("no lag of the broker is diagnosed", lambda: lag_reasons(parts) == set(), 60)
        for folder in node.log_dirs:
            shutil.rmtree(folder)
        node.prepare(self._lab.cluster_id)

    def recover(self, parts: Running, *, tuner_dies_after_s: float = math.inf) -> Recovery:
        """Starts the broker and returns what happened until it was in sync.

        Args:
            tuner_dies_after_s: the tuner is killed so many seconds after its throttle is in force.
        """
        course = Recovery()
        began_s = time.monotonic()
        self._lab.start_again(RETURNING)

        def look() -> bool:
            live = self.live()
            rates = [] if live is None else [setting.bytes_per_s for setting in live.rates.values()]
            course.at_s.append(time.monotonic() - began_s)
            course.copied_bytes.append(self._copied_bytes())
            course.highest_rate_bytes_per_s.append(max(rates, default=math.nan))
            course.headlines.add(headline(parts))
            status = parts.status()
            for decision in status["last_decisions"] if status else []:
                course.texts.setdefault(decision["reason"], set()).add(decision["text"])
            course.lag_reasons |= lag_reasons(parts) or set()
            tuner = next(child for child in parts.supervisor.children if child.name == "tune")
            # Without a throttle the comparison is false, as its time is NaN.
            dies = course.at_s[-1] > course.throttled_s + tuner_dies_after_s and not course.marks
            if dies and tuner.process is not None:
                tuner.process.kill()
                course.marks.append(Mark(course.at_s[-1], "tuner killed"))
            return self.out_of_sync() == 0

        parts.until("every replica is in sync", look, IN_SYNC_S_MAX)
        course.latencies = [(at_s - began_s, 1000 * s) for at_s, s in self._probe.latencies_s() if at_s >= began_s]
        return course

    def _copied_bytes(self) -> float:
        folder = self._lab.nodes[RETURNING].home / "data"
        return float(sum(file.stat().st_size for file in folder.glob(f"{TOPIC}-*/*.log")))


def draw(courses: dict[str, Recovery]) -> str:
    """Returns the picture of the recoveries, second by second."""
    seconds = max(math.ceil(course.in_sync_s) for course in courses.values())

    def by_second(course: Recovery, values: list[float]) -> list[float]:
        found = []
        for second in range(seconds):
            until_then = [v for at_s, v in zip(course.at_s, values, strict=True) if at_s <= second + 1]
            found.append(until_then[-1] if until_then and second < course.in_sync_s else math.nan)
        return found

    def slowest(course: Recovery) -> list[float]:
        by = [[ms for at_s, ms in course.latencies if second <= at_s < second + 1] for second in range(seconds)]
        return [max(ms, default=math.nan) for ms in by]

    named = list(zip(courses.items(), COLOURS[1::-1], strict=True))
    return svg(
        "A broker comes back with an empty disk",
        f"{MEGABYTES} MB on each of three brokers; producers write {rate_text(WRITES_BYTES_PER_S)}; ceiling {rate_text(CEILING)}",
        [second + 1.0 for second in range(seconds)],
        (
            Panel(
                "On the broker's disk",
                tuple(Line(name, by_second(c, c.copied_bytes), colour) for (name, c), colour in named),
                size_text,
            ),
            Panel(
                "Highest throttle",
                tuple(
                    Line(name, by_second(c, c.highest_rate_bytes_per_s), colour, stepped=True)
                    for (name, c), colour in named
                ),
                rate_text,
            ),
            Panel(
                "Slowest of 20 records, acks=all",
                tuple(Line(name, slowest(c), colour) for (name, c), colour in named),
                lambda value: f"{value:g} ms",
            ),
        ),
        time_label="time since the start of the broker's process",
        marks=[mark for course in courses.values() for mark in course.marks],
        caption="Without a line no throttle is set. A line ends when every replica is in sync.",
    )


@pytest.mark.campaign
@pytest.mark.timeout(1500)
def test_wiped_broker_recovers_throttled_and_leaves_nothing(tmp_path: Path) -> None:
    with Lab(LabSpec(brokers=3)) as lab, ClusterClient(lab.kafka_settings(), "story") as client:
        make_topic(lab, TOPIC, {p: [(p + n) % 3 + 1 for n in range(3)] for p in range(PARTITIONS)}, MEGABYTES)
        load = ProducerLoad(
            lab.artifacts, lab.bootstrap_servers, TOPIC, rate_bytes_per_s=WRITES_BYTES_PER_S, record_bytes=10_000
        )
        with load, LatencyProbe(lab.kafka_settings(), TOPIC, PARTITIONS) as probe:
            broker = WipedBroker(lab, client, probe)
            with running(lab, **LIMITS, recovery="watch") as parts:
                parts.until("rheostat is ready", lambda: (s := parts.status()) and s["ready"], READY_S_MAX)
                broker.kill_and_wipe(parts)
                watch = broker.recover(parts)
                assert broker.is_clean()
                reload_with_act(parts)
                broker.kill_and_wipe(parts)
                act = broker.recover(parts, tuner_dies_after_s=5.0)
                parts.until("nothing is left", broker.is_clean, 90)
            acknowledged = len(probe.latencies_s())
            ends = client.end_offsets(client.partitions([TOPIC]))
        write_plot(tmp_path / "recovery.svg", draw({"watch": watch, "act": act}))
    assert sum(ends.values()) >= acknowledged + MEGABYTES * 10, "acknowledged records are lost"
    # Neither recovery is taken for a fault.
    assert watch.lag_reasons | act.lag_reasons == {"lag_recovering"}
    # The first one is not throttled, and the page says what the tuner would do.
    assert math.isnan(watch.throttled_s)
    promise = "with tuner.recovery: act it would put the replicas of"
    assert any(promise in text for text in watch.texts["recovery_watched"])
    # The other one is throttled within seconds, survives the tuner's death, and takes as long as its rate allows.
    assert act.marks, "it was in sync before the tuner could be killed"
    assert act.throttled_s - act.first_fetch_s <= IN_FORCE_S_MAX
    assert max(rate for rate in act.highest_rate_bytes_per_s if math.isfinite(rate)) <= CEILING
    assert "recovery_throttled" in act.texts
    assert any(re.search(r"Broker 3 recovers: \d+ partitions, [\d.]+ MB to copy\.", text) for text in act.headlines)
    assert act.in_sync_s > watch.in_sync_s
