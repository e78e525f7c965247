"""The demo's recording and its chart: one value a second, gaps where nothing is known, marks at the events."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from rheostat.cli import app
from rheostat.demo.chart import draw_rescue
from rheostat.demo.film import draw_film
from rheostat.demo.move import MoveSample, MoveWatch
from rheostat.demo.recording import Event, Recording, make_recording
from rheostat.errors import CommandError
from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterError, ConfigValue
from streaming.shared.throttle_settings import RATE_KEYS

SVG = "{http://www.w3.org/2000/svg}"
SAMPLES = [
    MoveSample(100.2, False, 900, 900),
    MoveSample(101.4, True, 800, 900, 4.5e6, 4.5e6),
    MoveSample(101.9, True, 810, 910, 4.5e6, 4.5e6),
    MoveSample(103.0, True, None, None, 30e6, None),
    MoveSample(114.5, False, 0, 990),
]


def recording(events: list[tuple[float | None, str]] | None = None) -> Recording:
    latencies_s = [(100.1, 0.004), (100.2, 0.010), (100.9, 0.006), (102.5, 0.3)]
    return make_recording(
        SAMPLES,
        latencies_s,
        events or [],
        began_s=100.0,
        ended_s=114.6,
        write_bytes_per_s=3e6,
        steady_state_bytes_per_s=6e6,
    )


def test_recording_has_the_last_known_value_of_each_second() -> None:
    found = recording()
    assert found.leader_throttle_bytes_per_s == [None, None, 4.5e6, *[30e6] * 11, None]
    assert found.follower_throttle_bytes_per_s[:4] == [None, None, 4.5e6, None]
    # Before the move nothing is left to copy; a sample older than 10 s says nothing.
    assert found.remaining_bytes == [None, None, 810, *[None] * 12]
    assert (found.produce_median_ms[:3], found.produce_max_ms[:3]) == ([6.0, None, 300.0], [10.0, None, 300.0])


def test_recording_leaves_out_events_that_did_not_happen() -> None:
    found = recording([(101.4, "move starts"), (None, "stall found"), (114.5, "move complete")])
    assert found.events == [Event(1.4, "move starts"), Event(14.5, "move complete")]


def test_recording_without_samples_is_empty_and_drawn() -> None:
    found = make_recording([], [], [], began_s=0.0, ended_s=0.0, write_bytes_per_s=3e6, steady_state_bytes_per_s=6e6)
    assert found.remaining_bytes == []
    ElementTree.fromstring(draw_rescue(found))


def test_chart_has_units_legend_and_marks() -> None:
    picture = draw_rescue(recording([(101.4, "move starts"), (114.5, "move complete")]))
    root = ElementTree.fromstring(picture)
    words = {element.text for element in root.iter(f"{SVG}text")}
    assert {
        "leader side",
        "follower side",
        "steady-state replication",
        "all partitions",
        "slowest of 20 records",
    } <= words
    assert {
        "move starts",
        "move complete",
        "30.0 MB/s",
        "200 ms",
        "1.00 kB",
        "time since the producers' start",
    } <= words
    assert len([path for path in root.iter(f"{SVG}path") if path.attrib.get("class") == "mark"]) == 2


def test_sample_has_the_throttles_of_both_sides() -> None:
    class FakeClient:
        def reassignments(self) -> list[Any]:
            return [SimpleNamespace(topic="orders")]

        def log_sizes(self, *_: object) -> dict[int, dict[tuple[str, int], int]]:
            return {1: {("orders", 0): 100}, 3: {("orders", 0): 40}}

        def broker_configs(self, *_: object) -> dict[int, Any]:
            leader = {RATE_KEYS[Side.LEADER]: ConfigValue("4500000", 1)}
            return {1: leader, 3: ClusterError("broker 3 does not answer")}

    sample = MoveWatch(cast(Any, FakeClient()), "orders", 1, 1, 3).take_sample()
    assert (sample.moving, sample.remaining_bytes) == (True, 60)
    assert (sample.leader_throttle_bytes_per_s, sample.follower_throttle_bytes_per_s) == (4.5e6, None)


def test_plot_option_is_checked_before_the_cluster_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    from rheostat.demo import story

    monkeypatch.setattr(story, "resolve_artifacts", lambda _: pytest.fail("the demo has started"))
    done = CliRunner().invoke(app, ["demo", "--plot", "/nowhere/rescue.svg"])
    assert isinstance(done.exception, CommandError)
    assert "the folder /nowhere does not exist" in str(done.exception)


def test_film_has_a_sentence_for_each_event_and_needs_no_script() -> None:
    picture = draw_film(recording([(101.4, "move starts"), (102.5, "stall found"), (114.5, "something else")]))
    root = ElementTree.fromstring(picture)
    sentences = [text.text for text in root.iter(f"{SVG}text") if "frame" in text.attrib.get("class", "")]
    assert sentences == [
        "Producers write 3.00 MB/s.",
        "An operator starts a move with a throttle of 4.50 MB/s.",
        "The tuner finds the stall: new writes alone take 6.00 MB/s. It raises the throttle.",
        "Something else.",
    ]
    # Without animations the whole chart and the last sentence are visible.
    visible = [text.attrib["opacity"] for text in root.iter(f"{SVG}text") if "frame" in text.attrib.get("class", "")]
    assert visible == ["0", "0", "0", "1"]
    curtains = [rect for rect in root.iter(f"{SVG}rect") if rect.attrib.get("class") == "curtain"]
    assert [rect.attrib["opacity"] for rect in curtains] == ["0"] * 3
    assert "<script" not in picture
    assert "prefers-reduced-motion: reduce" in picture


def test_film_without_a_measured_value_says_so() -> None:
    found = make_recording(
        [], [], [(1.0, "move starts")], began_s=0.0, ended_s=3.0, write_bytes_per_s=3e6, steady_state_bytes_per_s=6e6
    )
    assert "with a throttle of an unknown value." in draw_film(found)


def test_committed_film_is_small() -> None:
    film = Path(__file__).resolve().parents[4] / "docs" / "images" / "rescue-film.svg"
    assert 0 < film.stat().st_size < 1_000_000


def test_chart_without_film_does_not_move() -> None:
    assert "keyframes" not in draw_rescue(recording())


def test_film_option_is_checked_before_the_cluster_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    from rheostat.demo import story

    monkeypatch.setattr(story, "resolve_artifacts", lambda _: pytest.fail("the demo has started"))
    done = CliRunner().invoke(app, ["demo", "--film", "/nowhere/rescue.svg"])
    assert isinstance(done.exception, CommandError)
    assert "--film /nowhere/rescue.svg: the folder /nowhere does not exist" in str(done.exception)
