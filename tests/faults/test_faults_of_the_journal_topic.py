"""The journal's topic is deleted during a move: the tuner stops, says why, creates the topic and continues."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stage import MakeStage

Tell = Callable[[str, object], None]

pytestmark = [pytest.mark.campaign]


def test_deleted_journal_topic_stops_writes_and_is_recreated(make_stage: MakeStage, record_property: Tell) -> None:
    stage = make_stage("nojournal", megabytes=40)
    tuner = stage.start_tuner()
    stage.move()
    stage.wait_until_raised()
    stood = stage.rates()
    stage.delete_journal()
    said = len(tuner.lines())
    stage.until("the tuner stops all writes", lambda: "all writes stopped" in str(tuner.lines()[said:]), 90)
    assert {side: rate for side, rate in stage.rates().items() if rate > stood.get(side, 0)} == {}, (
        "raised without a record"
    )
    stage.until("the tuner says why", lambda: "journal's topic was deleted" in str(tuner.lines()[said:]), 30)
    stage.until("the topic exists again", lambda: stage.client.partitions([stage.topics.journal]), 30)
    (configs,) = stage.client.topic_configs([stage.topics.journal], ["cleanup.policy"]).values()
    assert configs["cleanup.policy"] == "compact"
    stage.until("the tuner acts again", lambda: any(line["event"] == "active" for line in tuner.lines()[said:]), 60)
    stage.end(120)
    record_property("told", "acted no more, made the topic again, and went on without a restart")
