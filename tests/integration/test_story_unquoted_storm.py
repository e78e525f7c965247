"""A storm on a cluster without quotas: rheostat measures it, says why no tenant is named, and its command tames it.

The plot of the run shows the rates before, during and after. `RHEOSTAT_SCREENSHOTS=1` writes it into the documentation.
"""

from __future__ import annotations

import html
import json
import math
import os
import re
import statistics
import threading
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from story_kit import ETL, Running, run_kafka_configs, running, storm

from benchmarks.controllers.storm import Storm, StormTenant
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.line_chart import COLOURS, Line, Mark, Panel, svg

CALM = StormTenant("calm", 1.0, replication_factor=2, topics_max=5, connections=2)
OLD = StormTenant("old-tool", 0.5, replication_factor=2, topics_max=5, connections=1, create_version=5)
LOUD = replace(ETL, requests_per_s=40, connections=8, honours=True)
QUIET_S = 45.0
PLOT = Path(__file__).parents[2] / "docs" / "images" / "storm-without-quota.svg"

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(1000)]


@dataclass
class Course:
    """What ``/api/v1/mutations`` says, once a second, on the clock of the calm tenants."""

    parts: Running
    calm: Storm
    samples: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    def look(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.parts.port}/api/v1/mutations", timeout=5) as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found

    def page(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.parts.port}/page/controller", timeout=5) as answer:
            return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", answer.read().decode())).split())

    def mark(self, label: str) -> float:
        self.marks.append(Mark(self.calm.now_s(), label))
        return self.calm.now_s()

    def mutations_per_s(self, begin_s: float, end_s: float) -> float:
        found = [one["mutations"]["per_s"] for at, one in self.samples if begin_s <= at <= end_s and one["mutations"]]
        assert found, f"no rate between {begin_s:.0f} and {end_s:.0f} s"
        return statistics.median(found)

    def requests_per_s(self, begin_s: float, end_s: float) -> float:
        found = [answered_per_s(one) for at, one in self.samples if begin_s <= at <= end_s and one["requests"]]
        assert found, f"no requests between {begin_s:.0f} and {end_s:.0f} s"
        return statistics.median(found)

    def sent_per_s(self, storms: Iterable[Storm], begin_s: float, end_s: float) -> float:
        """Returns the requests per second that the tenants themselves count, those that a quota refused included."""
        spans = [
            (one, begin_s + self.calm.began_s - one.began_s, end_s + self.calm.began_s - one.began_s) for one in storms
        ]
        tries = sum(r.tries for one, begin, end in spans for r in list(one.requests) if begin <= r.ended_s < end)
        return tries / (end_s - begin_s)

    def waits_ms(self, begin_s: float, end_s: float) -> float:
        """Median time of the calm tenant's creations."""
        requests = [r for r in list(self.calm.requests) if r.client_id == "calm" and r.creates and not r.failed]
        return 1000 * statistics.median(r.ended_s - r.due_s for r in requests if begin_s <= r.due_s <= end_s)


@contextmanager
def recorded(course: Course) -> Iterator[None]:
    done = threading.Event()

    def record() -> None:
        while not done.wait(1.0):
            course.samples.append((course.calm.now_s(), course.look()))

    thread = threading.Thread(target=record, name="course", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(timeout=10)


def answered_per_s(one: dict[str, Any]) -> float:
    return sum(request["per_s"] for request in one["requests"])


def draw(course: Course) -> str:
    times_s = [at for at, _ in course.samples]

    def values(name: str, factor: float = 1.0) -> list[float]:
        found = [one[name] for _, one in course.samples]
        numbers = [value["per_s"] if isinstance(value, dict) else value for value in found]
        return [math.nan if value is None else factor * value for value in numbers]

    waits = [r for r in course.calm.requests if r.client_id == "calm" and r.creates and not r.failed]

    def wait_ms(at_s: float) -> float:
        near = [r.ended_s - r.due_s for r in waits if at_s - 5 <= r.due_s <= at_s]
        return 1000 * statistics.median(near) if near else math.nan

    requests = (
        Line("creations and deletions", [answered_per_s(one) for _, one in course.samples], COLOURS[1]),
        Line("refused topics", values("refused_requests_per_s"), COLOURS[2], dashed=True),
    )
    rates = (
        Line("created and deleted", values("mutations"), COLOURS[1]),
        Line("Kafka's accounts", values("accounted_per_s"), COLOURS[2], dashed=True),
    )
    load = (
        Line("brokers forward", values("forwarding_busy_ratio", 100.0), COLOURS[1]),
        Line("controller is idle", values("idle_ratio", 100.0), COLOURS[0]),
    )
    return svg(
        "A storm on a cluster without quotas",
        "One tenant creates and deletes topics beside a calm one, on a real cluster of two brokers and one controller",
        times_s,
        (
            Panel("Requests per second, all clients", requests, lambda value: f"{value:g}/s"),
            Panel("Partitions per second, all clients", rates, lambda value: f"{value:g}/s"),
            Panel("Share of time", load, lambda value: f"{value:g} %"),
            Panel(
                "A creation of the calm tenant takes",
                (Line("median of 5 s", [wait_ms(at) for at in times_s], COLOURS[0]),),
                lambda value: f"{value:g} ms",
            ),
        ),
        time_label="time since the calm tenant's start",
        marks=course.marks,
        caption=(
            "Without a quota Kafka keeps no accounts of tenants. The storm creates as much as it deletes, so the rate from the number of "
            "partitions is a lower bound, and the storm is found by its requests and its load. The command of the status page limits "
            "each client-id; from then on Kafka keeps accounts, which name the tenant, and the calm tenant's creations are quick again."
        ),
    )


def test_storm_without_quotas_is_found_and_its_command_tames_it(tmp_path: Path) -> None:
    with Lab(LabSpec(brokers=2, heap_mb=320)) as lab, running(lab) as parts:
        parts.until("rheostat is ready", lambda: (s := parts.status()) and s["ready"], 300)
        with storm(lab, CALM, OLD) as calm, recorded(course := Course(parts, calm)):
            parts.until("the calm minute is over", lambda: calm.now_s() > QUIET_S, 90)
            before = course.look()
            assert before["storm"] is None
            assert before["mutations"]["source"] == "partition_count"
            assert (before["accounted_per_s"], before["tenants"]) == (None, [])
            old_ratio = {one["request"]: one["old_ratio"] for one in before["requests"]}["CreateTopics"]
            assert 0.2 < old_ratio < 0.5, "a third of the creations are in version 5"
            assert "Clients without support for KIP-599 send" in course.page()

            began_s = course.mark("storm")
            with storm(lab, LOUD) as loud:
                found = parts.until("the storm is found", lambda: course.look()["storm"], 90)
                found_s = course.mark("found")
                assert found["tenants"] == []
                assert "only after a mutation quota has been set" in found["tenant_unknown_reason"]
                page = course.page()
                assert "Storm since" in page
                [command] = found["commands"]
                assert command in page
                parts.until("the storm fills a window", lambda: calm.now_s() > max(found_s, began_s + 35) + 5, 60)
                limited_s = course.mark("command")
                run_kafka_configs(lab, command)
                parts.until(
                    "the tenant is named",
                    lambda: (
                        (t := course.look()["tenants"]) and t[0]["client_id"] == "etl" and t[0]["tokens"] is not None
                    ),
                    60,
                )
                parts.until("the storm is over", lambda: course.look()["storm"] is None, 120)
                over_s = course.mark("over")
                parts.until("a quiet half minute passes", lambda: calm.now_s() > over_s + 30, 60)
                end_s = calm.now_s()
        plot = draw(course)
    (tmp_path / PLOT.name).write_text(plot)
    if os.environ.get("RHEOSTAT_SCREENSHOTS"):
        PLOT.write_text(plot)
    spans = {"before": (began_s - 15, began_s), "during": (found_s, limited_s), "after": (over_s, end_s)}
    rates = {name: course.mutations_per_s(*span) for name, span in spans.items()}
    requests = {name: course.requests_per_s(*span) for name, span in spans.items()}
    sent = {name: course.sent_per_s((calm, loud), *span) for name, span in spans.items()}
    waits_ms = {name: course.waits_ms(*span) for name, span in spans.items()}
    figures = {
        "found_after_s": found_s - began_s,
        "partitions_per_s": rates,
        "requests_per_s": requests,
        "sent_per_s": sent,
        "calm_creation_ms": waits_ms,
    }
    (tmp_path / "figures.json").write_text(json.dumps(figures, indent=1))
    assert found_s - began_s < 60
    # Creations and deletions are in balance, so the number of partitions tells little, and the requests tell the storm.
    assert requests["during"] > 5 * requests["before"]
    assert requests["before"] == pytest.approx(sent["before"], rel=0.3)
    assert requests["during"] == pytest.approx(sent["during"], rel=0.5)
    # Each of the three client-ids may spend the rate of the command.
    assert rates["after"] < 3 * found["quota_per_s"]
    assert waits_ms["after"] < waits_ms["during"]
