"""`rheostat fetchers --watch`: rates, lag and the worst collision from the sizes of logs, and its screen and JSON."""

from __future__ import annotations

import io
import json

import pytest
from command_rig import Command
from rich.console import Console

from rheostat.fetchers.live_threads import (
    LiveThreads,
    LogSizes,
    SizesByBroker,
    analyse_threads,
    collision_text,
    to_record,
)
from rheostat.fetchers.live_view import render
from streaming.shared.kafka.values import PartitionState
from tuner.core.fetchers import fetcher_id

refused = Command("fetchers").refused

# The collision of LINE's slides: broker 3 copies partitions 0 and 6 from broker 5 with one thread of three.
TOPIC = "timeline"
STATES = [
    PartitionState(TOPIC, 0, leader=5, replicas=(5, 2, 3), isr=(5, 2)),
    PartitionState(TOPIC, 6, leader=5, replicas=(5, 3, 4), isr=(5, 3, 4)),
]
THREADS = dict.fromkeys((2, 3, 4, 5), 3)


def sizes(leader: int, *, lag_of_0: int = 0, lag_of_6: int = 0) -> SizesByBroker:
    return {
        5: {(TOPIC, 0): leader, (TOPIC, 6): leader},
        2: {(TOPIC, 0): leader},
        3: {(TOPIC, 0): leader - lag_of_0, (TOPIC, 6): leader - lag_of_6},
        4: {(TOPIC, 6): leader},
    }


def watched(*samples: SizesByBroker, window_s: float = 10.0, fetchers: dict[int, int] = THREADS) -> LiveThreads:
    logs = LogSizes(window_s)
    for n, by_broker in enumerate(samples):
        logs.add(2.0 * n, by_broker)
    return analyse_threads("a test", STATES, fetchers, logs)


COLLIDING = watched(sizes(10_000_000), sizes(14_000_000, lag_of_0=3_000_000, lag_of_6=500_000))


def test_analyse_threads_lagging_thread_comes_first() -> None:
    worst = COLLIDING.rows[0]
    assert worst.thread == (3, 5, fetcher_id(TOPIC, 0, 3)) == (3, 5, fetcher_id(TOPIC, 6, 3))
    assert set(worst.partitions) == {(TOPIC, 0), (TOPIC, 6)}
    assert worst.written_bytes_per_s == 4e6
    assert worst.copied_bytes_per_s == 4e6 - 1.75e6
    assert worst.lag_bytes == 3.5e6
    assert worst.lag_change_bytes_per_s == 1.75e6
    assert worst.out_of_sync == 1
    assert [row.lag_bytes for row in COLLIDING.rows[1:]] == [0, 0]


def test_collision_text_names_thread_partitions_and_idle_threads() -> None:
    assert COLLIDING.report.best.fetchers == 4
    assert COLLIDING.worst_collision is COLLIDING.rows[0]
    text = collision_text(COLLIDING)
    assert text is not None
    assert "-5 on broker 3 copies timeline-0, timeline-6" in text
    assert "while 2 of its threads for broker 5 have no partition." in text


def test_collision_text_without_better_value_is_none() -> None:
    parted = watched(sizes(0), sizes(4_000_000), fetchers=dict.fromkeys(THREADS, 4))
    assert parted.worst_collision is None
    assert collision_text(parted) is None


def test_analyse_threads_retention_on_one_log_is_no_lag() -> None:
    # The follower 4, in sync, has removed a file of 1 GB that the leader still has. In 30 s 60 MB are written.
    before, after = sizes(1_000_000_000), sizes(1_004_000_000)
    files_removed: SizesByBroker = {**after, 4: {(TOPIC, 6): 4_000_000}}
    row = next(row for row in watched(before, files_removed).rows if row.thread[0] == 4)
    assert row.lag_bytes == 60e6
    assert row.copied_bytes_per_s == 0


def test_analyse_threads_broker_without_answer_is_unknown() -> None:
    first, second = sizes(0), sizes(4_000_000)
    row = next(r for r in watched({**first, 2: {}}, {**second, 2: {}}).rows if r.thread[0] == 2)
    assert (row.copied_bytes_per_s, row.lag_bytes, row.lag_change_bytes_per_s) == (None, None, None)
    assert "–" in shown(watched({**first, 2: {}}, {**second, 2: {}}))


def test_log_sizes_forget_what_is_before_the_window() -> None:
    logs = LogSizes(4.0)
    for n, size in enumerate((0, 100_000, 100_000, 100_000)):
        logs.add(2.0 * n, {1: {("a", 0): size}})
    assert logs.measured_s == 4.0
    assert logs.growth_bytes_per_s(1, ("a", 0)) == 0
    assert logs.growth_bytes_per_s(1, ("a", 1)) is None
    assert LogSizes(4.0).measured_s == 0


def test_log_growth_counts_the_time_of_its_own_samples() -> None:
    key = ("a", 0)
    logs, gone = LogSizes(10.0), LogSizes(10.0)
    for n in range(6):  # Every 2 s; the log grows by 1 MB/s.
        size = {key: 2_000_000 * n}
        logs.add(2.0 * n, {1: size} if n >= 4 else {})
        gone.add(2.0 * n, {1: size} if n <= 2 else {1: {}})
    assert logs.growth_bytes_per_s(1, key) == 1_000_000
    assert gone.growth_bytes_per_s(1, key) is None


def shown(threads: LiveThreads | None, problem: str | None = None) -> str:
    out = io.StringIO()
    Console(file=out, width=160, no_color=True).print(render(threads, problem))
    return out.getvalue()


def test_render_shows_matrix_worst_thread_and_problem() -> None:
    text = shown(COLLIDING, "The cluster cannot be read now: no answer")
    assert "num.replica.fetchers=4 would reduce the load of the busiest thread" in text
    assert "Worst collision:" in text
    assert "3.50 MB" in text
    assert "+1.75 MB/s" in text
    assert "The cluster cannot be read now: no answer" in text
    assert "the first rates follow" in shown(None)


def test_to_record_has_every_thread() -> None:
    record = json.loads(json.dumps(to_record(COLLIDING, 1234)))
    assert record["best"] == 4
    assert record["worst_collision"] == {"follower": 3, "client_id": COLLIDING.rows[0].client_id}
    assert len(record["threads"]) == 3
    assert record["threads"][1]["lag_bytes"] == 3_500_000


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--watch", "--apply"), "--apply: not possible with --watch"),
        (("--watch", "--plot", "a.svg"), "--plot: not possible with --watch"),
        (("--watch", "--by", "partitions"), "--by partitions: not possible with --watch"),
        (("--watch", "--measure-for", "0"), "--measure-for 0: --watch measures write rates from the logs"),
        (("--duration", "5s"), "--duration: this option has an effect only with --watch"),
    ],
)
def test_fetchers_refuses_options_that_do_not_fit_watch(options: tuple[str, ...], text: str) -> None:
    assert text in refused("-c", "none.yaml", *options)
