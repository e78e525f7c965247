"""The text of an order's changes, and the reason why no tuner has acknowledged it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rheostat.config.settings import parse_settings
from rheostat.errors import BadInputError
from rheostat.orders import send
from rheostat.orders.acknowledgement import unacknowledged_text
from rheostat.orders.changes import raised_rates, release_summary
from rheostat.orders.send import RecordedOrders, _remaining_lines
from streaming.shared.contract import Side
from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.control.cordon.model import CordonMemory, OwnedCordon
from tuner.control.mutation_quota.entity import QuotaEntity
from tuner.control.mutation_quota.state import MutationMemory, OwnedQuota
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.presence import TunerMode, TunerPresence
from tuner.core.throttle_limits import MB

LEADER, FOLLOWER = (3, Side.LEADER), (3, Side.FOLLOWER)


@pytest.mark.parametrize(
    ("leader", "follower", "lines"),
    [
        (10 * MB, 60 * MB, ["broker 3 leader throttle: 10.0 MB/s → 50.0 MB/s"]),
        (50 * MB, None, []),
        (None, None, []),
        (1, 20 * MB, ["broker 3 follower throttle: 20.0 MB/s → 50.0 MB/s", "broker 3 leader throttle: 1 B/s → 50.0 MB/s"]),
    ],
)  # fmt: skip
def test_raised_rates_lists_only_throttles_that_rise(
    leader: int | None, follower: int | None, lines: list[str]
) -> None:
    found = raised_rates({LEADER: leader, FOLLOWER: follower}, {LEADER: 50 * MB, FOLLOWER: 50 * MB})
    assert found == lines


THEN = "Until `rheostat resume`, no setting is changed and no plan starts a step."


def test_release_summary_lists_rates_lists_and_quotas() -> None:
    pairs = ThrottledReplicas(pairs=frozenset({(0, 1), (1, 2)}))
    memory = Memory(
        owned={LEADER: OwnedRate(5 * MB, 30 * MB, (30 * MB,)), FOLLOWER: OwnedRate(None, 30 * MB, (30 * MB,))},
        listed={"orders": TopicThrottle(leader=pairs, follower=pairs)},
    )
    quotas = MutationMemory(owned={QuotaEntity(client_id="etl"): OwnedQuota(None, 20.0, (20.0,))})
    changes = [
        "broker 3 follower throttle: 30.0 MB/s → no throttle",
        "broker 3 leader throttle: 30.0 MB/s → 5.00 MB/s",
        "topic orders: 4 entries leave its throttled-replicas lists",
        "client-id 'etl': 20/s → no quota",
    ]
    head = "This restores every setting that rheostat has changed on cluster main, even while partitions move:"
    assert release_summary("main", memory, quotas, None) == [head, *changes, THEN]
    unknown = (
        "This restores every setting that rheostat has changed on cluster main. Not all are known: the journal is torn."
    )
    assert release_summary("main", memory, quotas, "the journal is torn") == [unknown, "Known changes:", *changes, THEN]
    assert release_summary("main", Memory(), MutationMemory(), "the journal is torn") == [unknown, THEN]


def test_release_summary_without_managed_settings_says_so() -> None:
    nothing = "According to the journal, rheostat has changed no settings on cluster main."
    assert release_summary("main", Memory(), MutationMemory(), None) == [nothing, THEN]


def test_release_summary_of_a_large_cluster_is_shortened() -> None:
    memory = Memory(owned={(broker, Side.LEADER): OwnedRate(None, MB, (MB,)) for broker in range(100)})
    lines = release_summary("main", memory, MutationMemory(), None)
    assert (len(lines), lines[-2]) == (23, "and 80 more throttles")


def presence(mode: TunerMode, waits_for: str = "") -> TunerPresence:
    return TunerPresence("host-1:7", mode, 0, "0.1.0", 50e6, 5e6, waits_for=waits_for)


@pytest.mark.parametrize(
    ("tuners", "why"),
    [
        ((), "because no tuner runs. The next active tuner will apply it."),
        (
            (presence(TunerMode.ACTIVE),),
            "The active tuner, host-1:7, has not acknowledged the order yet. `rheostat status`",
        ),
        (
            (presence(TunerMode.ACTIVE, "no signal"),),
            "The active tuner, host-1:7, has not acknowledged the order yet (no signal). `rheostat status`",
        ),
        ((presence(TunerMode.DRY_RUN),), "host-1:7 is in a dry run and follows no orders."),
        ((presence(TunerMode.STARTING, "the cluster"),), "host-1:7 is not active: the cluster. The next"),
    ],
)
def test_unacknowledged_text_names_the_tuner_and_the_cause(tuners: tuple[TunerPresence, ...], why: str) -> None:
    assert why in unacknowledged_text(tuners)


@pytest.mark.parametrize(
    ("tuners", "rate", "message"),
    [
        ((), 40 * MB, None),
        ((), 60 * MB, r"is above tuner.rate_bytes_per_s_max \(50.0 MB/s\).*raise the maximum in the settings\.$"),
        (
            (replace(presence(TunerMode.ACTIVE), rate_bytes_per_s_max=20e6),),
            40 * MB,
            r"of the active tuner, host-1:7\.$",
        ),
        ((replace(presence(TunerMode.ACTIVE), rate_bytes_per_s_max=90e6),), 60 * MB, None),
        ((replace(presence(TunerMode.DRY_RUN), rate_bytes_per_s_max=20e6),), 40 * MB, None),
    ],
)
def test_check_rate_uses_the_maximum_of_the_active_tuner(
    tuners: tuple[TunerPresence, ...], rate: float, message: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send, "read_tuners", lambda *_: tuners)
    text = "cluster: c\nkafka: {bootstrap_servers: 'a:1'}\nstream: {checkpoint_dir: /x}\ntuner: {rate_bytes_per_s_max: 50MB/s}\n"
    settings = parse_settings(text, "f.yaml", {})
    if message is None:
        assert send.check_rate(settings, rate) == rate
        return
    with pytest.raises(BadInputError, match=message):
        send.check_rate(settings, rate)


def test_release_summary_names_brokers_whose_cordon_is_lifted() -> None:
    lines = release_summary("main", Memory(), MutationMemory(), None, [3, 4])
    assert lines[1:-1] == ["broker 3: its cordon is lifted", "broker 4: its cordon is lifted"]


def test_cordon_that_is_not_lifted_is_named_after_a_release() -> None:
    owned = {3: OwnedCordon("p", ("/a",), is_written=True), 4: OwnedCordon("p", ()), 5: OwnedCordon("p", ("/a",))}
    assert _remaining_lines(RecordedOrders(cordons=CordonMemory(owned))) == [
        "broker 3: its cordon is not lifted",
        "broker 5: a request to cordon this broker got no answer; if the request still takes effect, the tuner lifts the cordon",
    ]
