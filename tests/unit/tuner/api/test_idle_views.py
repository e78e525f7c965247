"""The outlook of the view Now while nothing moves, and the answer to "is anything wrong?"."""

from __future__ import annotations

import re
from dataclasses import replace

from api_rig import Rig, many_brokers
from metrics_rig import StormSignals, replication_signal
from tuner_cases import CLUSTER, NOW_MS, SOURCE, broker_signal, live
from week_cases import broker_profile

from tuner.control.throttle.objective import Capacity, Objective
from tuner.control.throttle.state import Memory
from tuner.core.operator_orders import Orders, Pause
from tuner.core.throttle_limits import MB


def text_of(rig: Rig, part: str) -> str:
    return " ".join(re.sub("<[^>]+>", " ", rig.get(f"/page/{part}").text).replace("&#39;", "'").split())


def idle_rig() -> Rig:
    rig = Rig()
    rig.board.limits = replace(rig.board.limits, closed_loop=True)
    rig.cycle(
        cluster=live({}, moves=(), lists={}), memory=Memory(), signals=[],
        brokers=[replace(broker_signal(b), client_in_bytes_per_s=b * 10 * MB, client_out_bytes_per_s=0.0) for b in (1, 2, 3)],
    )  # fmt: skip
    return rig


def test_outlook_of_unknown_values_says_why() -> None:
    text = text_of(idle_rig(), "idle")
    assert "Objective Produce latency (p99) within 30 ms, mode fast; source: tuner.objective.latency_ms ." in text
    assert (
        "Best start of a plan Unknown, because there is no forecast of the load: each of brokers 1, 2, 3 has no profile."
        in text
    )
    assert "Replication lag Unknown, because no broker reports the lag" in text
    assert "Topics created and deleted Unknown. No active Kafka controller is measured" in text
    assert "Orphaned throttles None: moves need every throttle that is set." in text
    assert "Fetcher threads Unknown, because no signal about fetcher threads has arrived" in text
    assert "3 – 30.0 MB/s – 0 B/s 2.0 s ago unknown, because rheostat learn has published no profile" in text


def test_outlook_is_empty_while_partitions_move() -> None:
    rig = Rig()
    rig.cycle()
    assert rig.get("/page/idle").text == ""
    rig.cycle(cluster=live(moves=()), memory=Memory())
    assert "Objective" in rig.get("/page/idle").text
    rig.board.become_standby()
    assert rig.get("/page/idle").text == ""


def test_outlook_shows_capacity_with_source_and_age() -> None:
    rig = idle_rig()
    rig.board.capacity_by_broker = {1: Capacity(100 * MB, 200 * MB)}
    rig.weeks.profiles = {
        2: broker_profile(CLUSTER, 2, NOW_MS),
        3: replace(broker_profile(CLUSTER, 3, NOW_MS), capacity_in=None),
    }
    fast = [replace(broker_signal(broker), link_speed_bytes_per_s=1250 * MB) for broker in (2, 3)]
    rig.cycle(cluster=live({}, moves=(), lists={}), memory=Memory(), signals=[], brokers=[broker_signal(1), fast[0]])
    text = text_of(rig, "idle")
    assert "1 100 MB/s – 200 MB/s – 2.0 s ago tuner.capacity" in text
    assert "learned, last measured 1 d 2 h ago; the speed of the link is 1.25 GB/s" in text
    assert "3 – – – – never unknown, because it is learned during moves" in text
    rig.cycle(cluster=live({}, moves=(), lists={}), memory=Memory(), signals=[], brokers=fast)
    text = text_of(rig, "idle")
    assert "3 1.25 GB/s – 1.25 GB/s – 2.0 s ago speed of the link, from the metrics of the machine; disks may" in text


def test_outlook_names_the_best_start() -> None:
    rig = idle_rig()
    rig.weeks.profiles = {broker: broker_profile(CLUSTER, broker, NOW_MS) for broker in (1, 2)}
    rig.cycle(cluster=live({}, moves=(), lists={}), memory=Memory(), signals=[])
    text = text_of(rig, "idle")
    assert re.search(r"Best start of a plan 2023-11-15 1[67]:00 UTC, the quietest 4 hours of the next day", text)
    assert "1 of 3 brokers have no forecast, and are left out. rheostat plan estimate PLAN.json --start best" in text


def test_outlook_says_what_a_returning_broker_gets() -> None:
    rig = idle_rig()
    idle = {"cluster": live({}, moves=(), lists={}), "memory": Memory(), "signals": []}
    assert "would ignore the recovery, because tuner.recovery is off" in text_of(rig, "idle")
    rig.board.limits = replace(rig.board.limits, reports_recoveries=True)
    rig.cycle(**idle)
    assert "would report the recovery and change nothing, because tuner.recovery is watch" in text_of(rig, "idle")
    rig.board.limits = replace(rig.board.limits, throttles_recoveries=True)
    rig.board.capacity = Capacity(100 * MB, 100 * MB)
    rig.cycle(**idle, brokers=[replace(broker_signal(b), client_in_bytes_per_s=b * 10 * MB) for b in (1, 2)])
    text = text_of(rig, "idle")
    assert "throttle its copies, at 5.00 MB/s to 50.0 MB/s on each side" in text
    assert "leave 65.0 MB/s of what broker 2 can receive, the least of all brokers" in text
    assert "a broker that lacks less than 60.0 MB." in text
    rig.cycle(**idle, orders=Orders(5, Pause(NOW_MS, "kim")))
    assert "would change nothing, because it is paused" in text_of(rig, "idle")


def test_outlook_shows_lag_mutations_and_colliding_threads() -> None:
    rig = idle_rig()
    follower = replication_signal(3, NOW_MS)
    uneven = replace(follower.threads[0], partitions=130.0), replace(follower.threads[1], partitions=70.0)
    rig.mutations.update(StormSignals(NOW_MS), NOW_MS)
    rig.cycle(
        cluster=live({}, moves=(), lists={}), memory=Memory(), signals=[],
        replication=[replace(follower, threads=uneven), replication_signal(2, NOW_MS)],
    )  # fmt: skip
    text = text_of(rig, "idle")
    assert "Replication lag Largest on broker 2: 5,000 messages, 24 s behind. 2 brokers report their lag." in text
    assert "30 partitions share a thread although another thread of the same pair of brokers has fewer" in text
    assert "3 from 1: 130, 70 , 30 above an even share" in text
    assert "2 from 1: 100, 100" in text
    assert re.search(r"Topics created and deleted \S+ partitions/s", text)


def test_outlook_of_thousand_brokers_is_small() -> None:
    rig = Rig()
    cluster, seen = many_brokers(1000)
    signals = [replication_signal(broker, NOW_MS) for broker in range(1, 1001)]
    rig.cycle(
        cluster=replace(cluster, moves=(), rates={}, lists={}),
        memory=Memory(),
        signals=[],
        brokers=seen["brokers"],
        replication=signals,
    )
    body = rig.get("/page/idle")
    assert "The 12 busiest of 1000" in body.text
    assert len(body.content) < 15_000


def test_outlook_without_objective_says_so() -> None:
    rig = idle_rig()
    rig.board.objective = None
    rig.cycle(cluster=live({}, moves=(), lists={}), memory=Memory(), signals=[])
    assert "Objective None, because tuner.objective is off." in text_of(rig, "idle")
    rig.board.objective = Objective(tolerance=0.5)
    rig.cycle(cluster=live({}, moves=(), lists={}), memory=Memory(), signals=[])
    text = text_of(rig, "idle")
    assert "at most 50% above the latency without copies, mode fast; source: tuner.objective.tolerance ." in text
    assert "The limit of each broker is unknown, because its latency without copies has not been measured yet." in text


def test_nothing_is_wrong_on_an_idle_cluster() -> None:
    assert "Nothing is wrong." in text_of(idle_rig(), "now")


def test_concerns_name_what_is_wrong_and_link_to_it() -> None:
    rig = Rig()
    rig.cycle(brokers=[broker_signal(1, leader=9.5 * MB, p99=80.0), broker_signal(3)])
    page = rig.get("/page/now").text
    assert '<p>The move onto broker 3 has stalled. <a href="/brokers?find=3"' in page
    assert "Producers of broker 1 wait 80 ms (p99), and the objective is 30 ms." in page
    assert "2 things are wrong." in page
    rig.cycle(
        cluster=live({SOURCE: 10 * MB}, moves=(), lists={}),
        memory=Memory(),
        signals=[],
        orders=Orders(5, Pause(NOW_MS, "kim")),
    )
    text = text_of(rig, "now")
    assert "The tuner is paused, until an operator resumes it." in text
    assert "1 setting of throttles serves no move: rheostat throttles clear removes them." in text
