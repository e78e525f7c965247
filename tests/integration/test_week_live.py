"""The week of a broker on a real broker: a missing topic, a whole week within one request, forged records, the tuner's answer."""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lab_parts import RHEOSTAT, MakeLab, running, until, within

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from streaming.shared.contract import HistoryPeriod, Topics, encode_history, encode_profile, history_key, profile_key
from streaming.shared.kafka import consumer, producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.topics import ensure_topics
from tuner.api.week_store import SLOTS, WeekStore
from tuner.runtime.clock import Clock
from tuner.runtime.observe import background_reader
from tuner.runtime.observe.history_follower import history_follower

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from week_cases import broker_profile, change_event, history_week

LAB = LabSpec(brokers=1)
TOPICS = Topics.with_prefix("rheostat")
CLUSTER = "lab"


def write(lab: Lab, periods: list[HistoryPeriod], *forged: tuple[bytes, bytes | None]) -> None:
    sender = producer(lab.kafka_settings(), "test-history")
    records = [*forged, *((history_key(period), encode_history(period)) for period in periods)]
    for key, value in records:
        sender.send(TOPICS.history, key=key, value=value)
    sender.flush(timeout=20)
    sender.close(timeout=5)


def answer_of(address: str) -> tuple[int, Any]:
    """Returns the status and the JSON of an answer; status 0: the server does not answer yet."""
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())
    except OSError:
        return 0, None


def test_tuner_answers_with_history_profile_and_changes(make_lab: MakeLab, tmp_path: Path) -> None:
    with ExitStack() as cleanups:
        lab, port, now_ms = make_lab(LAB), free_ports(1)[0], round(time.time() * 1000)
        with ClusterClient(lab.kafka_settings(), "test") as client:
            ensure_topics(client, TOPICS)
        write(lab, history_week(CLUSTER, (1,), now_ms, days=0.5))
        sender = producer(lab.kafka_settings(), "test-profiles")
        for learned in (broker_profile(CLUSTER, 1, now_ms), change_event(CLUSTER, 1, now_ms)):
            sender.send(TOPICS.profiles, key=profile_key(learned), value=encode_profile(learned))
        sender.flush(timeout=20)
        sender.close(timeout=5)
        config = tmp_path / "rheostat.yaml"
        config.write_text(lab_config(lab, dry_run=True, http={"port": port}))
        tune = cleanups.enter_context(running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / "tune.log"))
        address = f"http://127.0.0.1:{port}/api/v1/brokers/1/week"

        def complete() -> Any:
            status, body = answer_of(address)
            return body if status == 200 and body["forecast"] is not None else None

        week = until(complete, 60, lambda: f"the week is complete: {answer_of(address)}, {tune.said()[-2000:]}")
        assert len(week["client_in_bytes_per_s"]) == 72
        assert (week["copies"] != [], len(week["events"])) == (True, 1)
        assert week["capacity_in"]["source"] == "learned"
        assert "from 7 d of history" in week["forecast_text"]
        assert answer_of(f"http://127.0.0.1:{port}/api/v1/brokers/7/week")[0] == 404


def follow_history(cleanups: ExitStack, lab: Lab, store: WeekStore, clock: Clock) -> None:
    create_consumer = partial(
        consumer,
        lab.kafka_settings(),
        "test-week",
        auto_offset_reset="earliest",
        max_poll_records=background_reader.POLL_RECORDS_MAX,
    )
    follower = history_follower(create_consumer, TOPICS.history, store, clock)
    follower.start()
    cleanups.callback(follower.stop)


def test_week_is_read_within_a_request_and_followed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_reader, "_AGAIN_S", 0.5)
    now_ms = round(time.time() * 1000)
    periods = history_week(CLUSTER, (1, 2, 3), now_ms)
    stopped = Clock(lambda: now_ms / 1000)  # A period may end during the test.
    with ExitStack() as cleanups:
        early = WeekStore(CLUSTER)
        follow_history(cleanups, lab, early, stopped)
        assert early.unread_reason(30.0) is None, "a missing topic is an empty history"
        assert early.is_empty
        with ClusterClient(lab.kafka_settings(), "test") as client:
            ensure_topics(client, TOPICS, [TOPICS.history])
        forged = [(b"progress", b'{"v": 1, "kind": "progress"}'), (f"{CLUSTER}|1".encode(), b"\xff"), (b"lab|2", None)]
        write(lab, [*periods[:-1], replace(periods[-2], cluster="other")], *forged)
        until(lambda: early.week(3, now_ms), 20, "the topic that appears later is read")

        def read() -> WeekStore:
            new = WeekStore(CLUSTER)
            follow_history(cleanups, lab, new, stopped)
            assert new.unread_reason(30.0) is None
            return new

        store = within(2.0, read)
        week = store.week(3, now_ms)
        assert week is not None
        assert len(week.copied) == SLOTS - 2  # Without the newest, and the present period has not ended.
        assert None not in week.columns["client_in_bytes_per_s"]
        write(lab, periods[-1:])
        until(
            lambda: (found := store.week(3, now_ms)) and len(found.copied) == SLOTS - 1,
            10,
            "the new period is followed",
        )
