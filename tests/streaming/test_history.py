"""History from signals: the fields of a period, and what passes over the signals topic make of late, repeated and false signals."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count

import pytest
from history_cases import (
    P0,
    PERIOD_MS,
    LoggedSignal,
    MemoryLog,
    Passes,
    broker,
    controller,
    logged,
    move,
    periods_of,
    replication,
    tenant,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from streaming.history.periods import TENANTS_MAX
from streaming.history.progress import HistoryProgress, PendingPeriod
from streaming.shared.contract import (
    BrokerHistory,
    ControllerHistory,
    HistoryPeriod,
    LagTrend,
    Side,
    TenantHistory,
    encode_signal,
    signal_key,
)

MB = 1e6


def test_period_has_means_maxima_and_medians(spark: SparkSession) -> None:
    trend = LagTrend(slope_messages_per_s=4.0, span_s=300.0, points=12)
    signals = [
        broker(
            5, client_in_bytes_per_s=10 * MB, replication_in_bytes_per_s=5 * MB, produce_p99_ms=4.0, produce_mean_ms=1.0
        ),
        broker(
            10,
            client_in_bytes_per_s=20 * MB,
            replication_in_bytes_per_s=9 * MB,
            produce_p99_ms=9.0,
            produce_mean_ms=2.0,
        ),
        broker(600, client_in_bytes_per_s=30 * MB, client_out_bytes_per_s=7.0, produce_p99_ms=5.0),
        move(5, Side.LEADER, moving=3, steady_state_bytes_per_s=2 * MB),
        move(10, Side.LEADER, moving=2, steady_state_bytes_per_s=4 * MB),
        move(10, Side.FOLLOWER, moving=4, steady_state_bytes_per_s=1 * MB),
        replication(10, lag_sum_messages=100.0, trend_5min=trend),
        replication(15, lag_sum_messages=300.0),
    ]
    assert periods_of(spark, signals) == {
        ("c", 0): HistoryPeriod(
            cluster="c",
            start_ms=P0,
            brokers=(
                BrokerHistory(
                    broker=1,
                    signals=3,
                    client_in_bytes_per_s=20 * MB,
                    client_out_bytes_per_s=7.0,
                    replication_in_bytes_per_s=7 * MB,
                    leader_steady_state_bytes_per_s=3 * MB,
                    follower_steady_state_bytes_per_s=1 * MB,
                    in_bytes_per_s_max=29 * MB,
                    in_max_p99_ms=9.0,
                    produce_mean_ms=1.5,
                    produce_p99_ms=5.0,
                    produce_p99_ms_max=9.0,
                    moving_partitions_max=4.0,
                    lag_sum_messages=200.0,
                    lag_slope_messages_per_s=4.0,
                ),
            ),
        )
    }


def test_window_at_boundary_belongs_to_ending_period(spark: SparkSession) -> None:
    periods = periods_of(spark, [broker(0), broker(0.001), broker(600), broker(600.001)])
    assert {number: p.brokers[0].signals for (_, number), p in periods.items()} == {-1: 1, 0: 2, 1: 1}


def test_controller_totals_come_from_active_controller(spark: SparkSession) -> None:
    signals = [
        controller(5, 100, active=1.0, create_requests_per_s=2.0, partitions=50.0, topics=5.0),
        controller(5, 101, active=0.0, create_requests_per_s=900.0, partitions=1.0),
        controller(10, 101, active=1.0, create_requests_per_s=4.0, partitions=60.0),
        controller(10, 100, active=0.0, create_requests_per_s=700.0),
        controller(15, 102, create_requests_per_s=800.0),
    ]
    (period,) = periods_of(spark, signals).values()
    assert period.controller == ControllerHistory(create_requests_per_s=3.0, partitions=55.0, topics=5.0)
    assert period.brokers == ()


def test_tenant_rate_is_summed_over_controllers(spark: SparkSession) -> None:
    """The active controller counts a mutation; another one shows 0, or what it counted before it resigned."""
    signals = [
        tenant(5, 100, user="a", mutation_rate_per_s=6.0),
        tenant(5, 101, user="a", mutation_rate_per_s=0.0),
        tenant(10, 100, user="a", mutation_rate_per_s=2.0),
        tenant(10, 101, user="a", mutation_rate_per_s=8.0),
        tenant(5, 100, client_id="x", user="a", mutation_rate_per_s=1.0),
        tenant(5, 100, user="idle"),
    ]
    (period,) = periods_of(spark, signals).values()
    assert period.tenants == (
        TenantHistory(user="a", mutation_rate_per_s=8.0, mutation_rate_per_s_max=8.0),
        TenantHistory(user="a", client_id="x", mutation_rate_per_s=1.0, mutation_rate_per_s_max=1.0),
        TenantHistory(user="idle"),
    )


def test_tenants_beyond_the_highest_rates_are_left_out(spark: SparkSession) -> None:
    signals = [tenant(5, user=f"u{n}", mutation_rate_per_s=float(n)) for n in range(TENANTS_MAX + 50)]
    (period,) = periods_of(spark, signals).values()
    assert [t.mutation_rate_per_s for t in period.tenants] == [float(n) for n in range(TENANTS_MAX + 49, 49, -1)]


def test_fields_without_measurement_are_unknown(spark: SparkSession) -> None:
    """A record without a field, for example of an older version, is None and not 0."""
    signal = broker(5)
    body = json.loads(encode_signal(signal))
    short = {k: v for k, v in body.items() if v is not None and k != "backlog"}
    entry = LoggedSignal(signal_key(signal), json.dumps(short).encode(), signal.window_end_ms)
    (period,) = periods_of(spark, [entry, controller(5)]).values()
    assert period == HistoryPeriod(cluster="c", start_ms=P0, brokers=(BrokerHistory(broker=1, signals=1),))


def test_newest_record_of_a_window_counts_once(spark: SparkSession) -> None:
    """A window is written again when a late scrape arrives; a crash writes it twice."""
    first, last = broker(5, client_in_bytes_per_s=1.0), broker(5, client_in_bytes_per_s=3.0)
    (period,) = periods_of(spark, [first, last, last, broker(10, client_in_bytes_per_s=5.0)]).values()
    assert (period.brokers[0].signals, period.brokers[0].client_in_bytes_per_s) == (2, 4.0)


def test_two_clusters_in_one_topic_stay_apart(spark: SparkSession) -> None:
    signals = [
        broker(5, 2, "b", client_in_bytes_per_s=1.0),
        broker(5, 1, "a|x", client_in_bytes_per_s=2.0),
        broker(5, 1, "b", client_in_bytes_per_s=3.0),
    ]
    periods = periods_of(spark, signals)
    assert [b.client_in_bytes_per_s for b in periods["b", 0].brokers] == [3.0, 1.0], "in order of the ids"
    assert [b.client_in_bytes_per_s for b in periods["a|x", 0].brokers] == [2.0]


def test_numbers_have_five_significant_digits(spark: SparkSession) -> None:
    fields = {"client_in_bytes_per_s": 123_456_789.0, "client_out_bytes_per_s": 0.000123456, "produce_mean_ms": -0.0}
    (period,) = periods_of(spark, [broker(5, **fields)]).values()
    (one,) = period.brokers
    assert (one.client_in_bytes_per_s, one.client_out_bytes_per_s, one.produce_mean_ms) == (
        123_460_000.0,
        0.00012346,
        0,
    )


def _changed(**fields: object) -> LoggedSignal:
    """A signal of broker 2 with other fields in its value."""
    signal = broker(5, 2)
    body = json.loads(encode_signal(signal)) | fields
    return LoggedSignal(signal_key(signal), json.dumps(body).encode(), signal.window_end_ms)


@pytest.mark.parametrize(
    "hostile",
    [
        _changed(v=1),
        _changed(v="2"),
        _changed(kind="else"),
        _changed(kind=None),
        _changed(cluster=None),
        _changed(cluster="x" * 5000),
        _changed(broker=-1),
        _changed(broker=2**40),
        _changed(broker=None),
        _changed(window_end_ms=P0 + 6000),
        _changed(window_end_ms=None),
        _changed(client_in_bytes_per_s=1e300),
        _changed(client_in_bytes_per_s=float("nan")),
        _changed(client_in_bytes_per_s=float("inf")),
        _changed(client_in_bytes_per_s="7"),
        _changed(client_in_bytes_per_s=[1]),
        _changed(kind="move", side="sideways"),
        _changed(kind="replication", trend_5min={"slope_messages_per_s": -1e25}),
        _changed(kind="replication", trend_5min=7),
        _changed(kind="tenant", node=1, user="u" * 1025),
        LoggedSignal(b"c|broker|2|%d" % (P0 + 5000), None, P0),
        LoggedSignal(b"c|broker|2|%d" % (P0 + 5000), b"", P0),
        LoggedSignal(b"c|broker|2|%d" % (P0 + 5000), b"\xff\xfe{", P0),
        LoggedSignal(b"c|broker|2|%d" % (P0 + 5000), b"[" * 3000, P0),
        LoggedSignal(b"c|broker|2|%d" % (P0 + 5000), b"7", P0),
    ],
)
def test_hostile_signal_is_left_out_and_counted(spark: SparkSession, hostile: LoggedSignal) -> None:
    log = MemoryLog(spark)
    log.add(broker(5, 1, client_in_bytes_per_s=3.0), hostile)
    passes = Passes(log)
    passes.run(1200)
    (period,) = log.periods().values()
    assert [b.broker for b in period.brokers] == [1]
    assert [job.refused for job in passes.jobs] == [1]


def test_keys_without_plausible_time_touch_no_period(spark: SparkSession) -> None:
    log = MemoryLog(spark)
    value = encode_signal(broker(5))
    keys = (None, b"", b"x", b"c|broker|1|soon", b"c|broker|1|-5", b"c|broker|1|%d" % 2**70, b"c|broker|1|1000")
    future = broker(40 * 24 * 3600)
    log.add(*[LoggedSignal(key, value, P0) for key in keys], replace(logged(future), at_ms=P0), broker(5))
    passes = Passes(log)
    passes.run(1200)
    assert [job.periods for job in passes.jobs] == [1]
    assert log.periods().keys() == {("c", 0)}
    stored = log.progress()
    assert stored is not None
    assert stored.pending == (), "a signal of the far future does not wait forever"


def test_forged_pending_periods_of_the_future_are_dropped(spark: SparkSession) -> None:
    log = MemoryLog(spark)
    forged = tuple(PendingPeriod(start_ms=10**13 + i, records=1, end_offsets={}) for i in range(1_000))
    log.write_progress(HistoryProgress(pending=forged))
    log.add(broker(5))
    passes = Passes(log)
    passes.run(1200)
    assert log.periods().keys() == {("c", 0)}
    assert (log.progress() or HistoryProgress(pending=forged)).pending == ()


def test_extreme_numbers_give_a_readable_period(spark: SparkSession) -> None:
    signals = [
        broker(at_s, client_in_bytes_per_s=sign * 4e23, replication_in_bytes_per_s=sign * 4e23)
        for at_s, sign in ((5, 1), (10, -1), (15, 1))
    ]
    (period,) = periods_of(spark, signals).values()
    assert period.brokers[0].in_bytes_per_s_max == 8e23


def test_period_is_made_once_it_is_over(spark: SparkSession) -> None:
    log = MemoryLog(spark)
    passes = Passes(log)
    log.add(broker(5), broker(10))
    passes.run(599)
    passes.run(659)
    assert not log.history
    passes.run(661)
    assert log.periods()["c", 0].brokers[0].signals == 2
    passes.run(2000)
    assert len(log.writes) == 1, "without new signals nothing is made again"


def test_late_backlog_signals_repair_their_period(spark: SparkSession) -> None:
    """After an outage the signals of the skipped time arrive behind newer ones, marked as backlog."""
    log = MemoryLog(spark)
    passes = Passes(log)
    log.add(broker(5, client_in_bytes_per_s=1.0), broker(1205, client_in_bytes_per_s=9.0))
    passes.run(1900)
    assert log.periods().keys() == {("c", 0), ("c", 2)}
    late = [broker(at_s, client_in_bytes_per_s=5.0, backlog=True) for at_s in (10, 605, 610)]
    log.add(*late, at_ms=P0 + 1_950_000)
    passes.restart()
    passes.run(2000)
    periods = log.periods()
    assert (periods["c", 0].brokers[0].signals, periods["c", 0].brokers[0].client_in_bytes_per_s) == (2, 3.0)
    assert (periods["c", 1].brokers[0].signals, periods["c", 1].brokers[0].client_in_bytes_per_s) == (2, 5.0)
    assert log.writes[-1] == [b"c|%d" % P0, b"c|%d" % (P0 + PERIOD_MS)], (
        "the period that nothing touched is not made again"
    )


def test_broker_that_is_away_is_missing(spark: SparkSession) -> None:
    periods = periods_of(spark, [broker(5, 1), broker(5, 2), broker(605, 2)])
    assert [[b.broker for b in periods["c", n].brokers] for n in (0, 1)] == [[1, 2], [2]]


def test_repair_makes_newest_hour_first(spark: SparkSession) -> None:
    log = MemoryLog(spark)
    passes = Passes(log)
    log.add(*[broker(600 * n + 5) for n in range(15)])
    passes.run(600 * 16)
    made = [[(int(key.split(b"|")[1]) - P0) // PERIOD_MS for key in keys] for keys in log.writes]
    assert made == [[9, 10, 11, 12, 13, 14], [3, 4, 5, 6, 7, 8], [0, 1, 2]]
    assert [job.newest_end_ms for job in passes.jobs] == [P0 + n * PERIOD_MS for n in (15, 9, 3)]


def test_failed_pass_is_repeated_completely(spark: SparkSession) -> None:
    log = MemoryLog(spark)
    passes = Passes(log)
    log.add(*[broker(600 * n + 5) for n in range(9)])

    writes = count(1)

    def fail_from_third_write() -> None:
        if next(writes) == 3:
            raise OSError("no broker answers")

    log.fails = fail_from_third_write
    with pytest.raises(OSError, match="no broker"):
        passes.run(6000)
    assert len(log.periods()) == 6, "the second job failed"
    passes.restart()
    passes.run(6000)
    assert len(log.periods()) == 9
    assert [len(keys) for keys in log.writes] == [6, 3], "what was made before is not made again"


def test_offset_of_an_earlier_topic_is_ignored(spark: SparkSession) -> None:
    log = MemoryLog(spark)
    passes = Passes(log)
    log.add(*[broker(at_s) for at_s in (5, 10, 15)])
    passes.run(700)
    log.entries.clear()  # The topic is deleted and created again.
    log.add(broker(605))
    passes.run(1300)
    assert log.periods().keys() == {("c", 0), ("c", 1)}


def test_signals_that_retention_deleted_are_skipped(spark: SparkSession) -> None:
    log = MemoryLog(spark)
    log.add(broker(5), broker(605))
    log.gone = 1
    Passes(log).run(2000)
    assert log.periods().keys() == {("c", 1)}


_signal = st.builds(
    lambda at, node, rate, cluster: broker(5 * at, node, cluster, client_in_bytes_per_s=float(rate)),
    st.integers(1, 8 * 120),
    st.integers(1, 2),
    st.integers(0, 9),
    st.sampled_from(["c", "d"]),
)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(signals=st.lists(_signal, min_size=1, max_size=12), cuts=st.data())
def test_division_into_passes_changes_nothing(spark: SparkSession, signals: list[object], cuts: st.DataObject) -> None:
    """Signals in any order, with repetitions; passes, restarts and repeated passes anywhere between them."""
    end_s = 8 * 600 + 61
    whole = MemoryLog(spark)
    whole.add(*signals, at_ms=P0 + end_s * 1000)  # type: ignore[arg-type]  # drawn from signals only
    Passes(whole).run(end_s)

    divided = MemoryLog(spark)
    passes = Passes(divided)
    for signal in signals:
        divided.add(signal, at_ms=P0 + end_s * 1000)  # type: ignore[arg-type]  # as above
        if cuts.draw(st.integers(0, 2)) == 0:
            if cuts.draw(st.booleans()):
                passes.restart()
            # No earlier time: a signal from more than an hour in the future counts as one with a wrong time.
            passes.run(cuts.draw(st.sampled_from([1300, 2500, end_s])), smallest_jobs=cuts.draw(st.booleans()))
    passes.run(end_s)
    assert divided.history == whole.history


def test_two_streams_at_once_make_the_history_of_one(spark: SparkSession) -> None:
    """Each knows only its own progress, and overwrites that of the other, as a stream does that resumes after a suspension."""
    signals = [broker(at_s, node, client_in_bytes_per_s=at_s) for at_s in (5, 590, 605, 1190, 1205) for node in (1, 2)]
    whole = MemoryLog(spark)
    whole.add(*signals)
    Passes(whole).run(2000)

    shared = MemoryLog(spark)
    streams = [Passes(shared), Passes(shared)]
    for number, signal in enumerate(signals):
        shared.add(signal)
        streams[number % 2].run(700 + 150 * number)
    streams[0].run(2000)
    streams[1].restart()
    streams[1].run(2000)
    assert shared.history == whole.history
