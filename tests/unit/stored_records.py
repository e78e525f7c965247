"""One record of each kind, as the program in this checkout writes it; test_stored_records.py compares them with the stored ones."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import msgspec
from cruise_control_kit import CruiseControlStandIn
from quota_film import Filmed
from replay_rig import FilmedRig
from test_replay_other_controllers import Film, elected, followed

from streaming import checkpoint
from streaming.shared.contract import (
    BrokerSignal,
    ControllerSignal,
    MoveSignal,
    ReplicationSignal,
    Side,
    TenantSignal,
    encode_history,
    encode_signal,
    history_key,
    signal_key,
)
from streaming.shared.contract.history import BrokerHistory, ControllerHistory, HistoryPeriod, TenantHistory
from streaming.shared.contract.learned_encoding import encode_profile, profile_key
from streaming.shared.contract.profiles import BrokerProfile, ChangedMeasure, ChangeEvent, LearnedCapacity, LoadForecast
from streaming.shared.contract.quotas import Default, QuotaEntity
from streaming.shared.throttle_settings import ThrottledReplicas, TopicThrottle
from tuner.control.cordon.model import OwnedCordon
from tuner.control.log_dir.model import LogDirMemory
from tuner.control.mutation_quota.state import LearnedCost, MutationMemory, OwnedQuota, TotalRate
from tuner.control.throttle.objective import Objective
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.batch_limits import BatchLimits
from tuner.core.operator_orders import ClearedThrottles, Orders, Override, Pause, QuotaTrial, QuotaTrialKind
from tuner.core.presence import TunerMode, TunerPresence
from tuner.core.reassignment_plan import (
    DesiredPlanState,
    OriginalTopic,
    PlanEnding,
    PlanHead,
    PlanPartition,
    PlanResult,
    PlanState,
    PlanThrottle,
    RequestedStep,
)
from tuner.core.throttle_limits import MB
from tuner.journal import (
    cordon_records,
    entries,
    list_records,
    log_dir_records,
    order_records,
    plan_records,
    quota_records,
)
from tuner.journal.presence_records import encode_presence, presence_key

C, PLAN, AT_MS = "main", "plan-1", 1_764_322_337_000
LEADER, FOLLOWER = (1, Side.LEADER), (3, Side.FOLLOWER)
Records = list[tuple[bytes, bytes | None]]


def filled(one: Any) -> Any:
    """Returns a copy of a signal or of a part of the history in which each optional number, text and flag has a value."""
    assert is_dataclass(one)
    body = msgspec.to_builtins(one)
    for field in fields(one):
        if body[field.name] is None:
            for value in (0.5, 1, "text"):
                try:
                    msgspec.convert({**body, field.name: value}, type(one))
                except (msgspec.ValidationError, ValueError):
                    continue
                body[field.name] = value
                break
    return msgspec.convert(body, type(one))


def journal() -> Records:
    orders = _orders()
    memory = Memory(
        rescued=frozenset({3}),
        owned={LEADER: OwnedRate(None, 5, (None, 5)), FOLLOWER: OwnedRate(7, 9, (5, 9), 7)},
        externally_owned_until_ms={(2, Side.LEADER): AT_MS},
        moving_replicas={("orders", 0): frozenset({1, 2, 3})},
        throttled=True,
        preexisting_rates={(4, Side.LEADER): MB},
        preexisting_lists=frozenset({"logs"}),
        idle_lists=frozenset({"idle"}),
        idle_lists_since_ms={"idle": AT_MS},
        brokers_to_clear=frozenset({5}),
        listed={"orders": _pairs()},
        predecessor_writes={LEADER: (None, 5)},
        predecessor_writes_until_ms=AT_MS,
        schedule_rules="night",
        cleared_at_ms=AT_MS,
        orders_at_ms=AT_MS,
        recorded_orders=orders,
        orders_recorded_until_ms=AT_MS,
    )
    kim = QuotaEntity("kim", Default.DEFAULT)
    quotas = MutationMemory(
        total=TotalRate(50.0, AT_MS, AT_MS, 60.0, AT_MS),
        cost=LearnedCost(0.9, 0.06, 10.0, 0.1, 7),
        externally_owned_until_ms={QuotaEntity(client_id="loader"): AT_MS},
        idle_baselines_ms={"apply_lag": 5.0},
        orders_at_ms=AT_MS,
    )
    cordon = OwnedCordon("p", ("/data",), ("/other",), was_set=True, is_written=True)
    log_dirs = LogDirMemory(owned={1: OwnedRate(None, 5, (5,))}, externally_owned_until_ms={1: AT_MS})
    decision = {"broker": 1, "side": "leader", "current_bytes_per_s": 4, "setpoint_bytes_per_s": 18}
    steps = {("orders", 0): RequestedStep((3, 1, 2), (1, 2), True, True, True)}
    state = PlanState(
        acknowledged_at_ms=AT_MS,
        ending=PlanEnding.DONE,
        ended_at_ms=AT_MS,
        dropped={("t", 0): "gone"},
        stopped_externally={("t", 1): "stopped"},
        blockers=("waits",),
        concurrency=("5 at a time",),
        paused_since_ms=AT_MS,
        paused_total_ms=3_000,
        result=PlanResult(2, 1, 9.0, 4.5),
    )
    rings = {"entry": "intent", "steering": "steering", "quotas-entry": "quotas", "plan-entry": "steps"}
    return [
        *(
            (
                entries.entry_key(ring, C, 7),
                entries.encode_entry(
                    entries.Entry(AT_MS, kind, "set", "watching", "text", decision, {"p99_ms": 5.0}, "failed", True, 7)
                ),
            )
            for ring, kind in rings.items()
        ),
        (entries.holder_key(C), entries.encode_holder("host:1")),
        (presence_key(C, "host:1"), encode_presence(_presence())),
        (entries.memory_key(C), entries.encode_memory(memory, "host:1")),
        (entries.owned_key(C, LEADER), entries.encode_owned(LEADER, OwnedRate(None, 6, (5, 6)))),
        (entries.moving_key(C, "t"), entries.encode_moving("t", {1: frozenset({2, 3})})),
        (list_records.listed_key(C, "t"), list_records.encode_listed("t", _pairs())),
        (quota_records.owned_key(C, kim), quota_records.encode_owned(kim, OwnedQuota(None, 5.5, (None, 5.5)))),
        (quota_records.state_key(C), quota_records.encode_state(quotas)),
        (cordon_records.cordon_prefix(C) + b"1", cordon_records.encode_cordon(1, cordon)),
        (log_dir_records.log_dir_prefix(C) + b"1", log_dir_records.encode_log_dir(1, log_dirs)),
        (plan_records.requested_key(C, PLAN, 0), plan_records.encode_requested(steps)),
        (plan_records.state_key(C, PLAN), plan_records.encode_state(state)),
    ]


def orders() -> Records:
    head = PlanHead(
        id=PLAN,
        submitted_by="kim",
        submitted_at_ms=AT_MS,
        ordered_at_ms=AT_MS,
        part_records=1,
        desired=DesiredPlanState.PAUSED,
        limits=BatchLimits(2, 3, 4),
        ordered_by="lee",
        state_ordered_at_ms=AT_MS,
        no_rollback=True,
        throttle=PlanThrottle(7.5),
        not_before_ms=AT_MS,
    )
    parts = {("orders", 0): PlanPartition((3, 4), (1, 2), 7.0, 0.5, OriginalTopic("6f1c", 3))}
    return [
        (order_records.orders_key(C), order_records.encode_orders(_orders())),
        (plan_records.part_key(C, PLAN, 0), plan_records.encode_parts(parts)),
        (plan_records.head_key(C, PLAN), plan_records.encode_head(head)),
    ]


def inputs() -> Records:
    """Half a minute of a move under the control law and of a mutation quota, elections, and movements of Cruise Control."""
    rig, quotas = FilmedRig(Memory(), objective=Objective(latency_ms=50.0)), Filmed()
    rig.goes_on(30, gained_bytes_per_s=4 * MB)
    quotas.cycles(4, "alice")
    elections, movements = Film(), Film()
    elected(elections)
    with CruiseControlStandIn().serving() as service:
        followed(service, movements)
    for film in (elections, movements):
        film.played()
    values = (*rig.journal.records, *quotas.filmed.film, *elections.records, *movements.records)
    return [(C.encode(), value) for value in values]


def signals() -> Records:
    window = {"cluster": C, "window_end_ms": AT_MS, "sampled_at_ms": AT_MS, "samples": 6, "completeness": 1.0}
    found = [
        BrokerSignal(broker=1, **window),
        MoveSignal(broker=1, side=Side.LEADER, moving_partitions=2, listed_partitions=2, **window),
        ReplicationSignal(broker=1, **window),
        ControllerSignal(node=100, **window),
        TenantSignal(node=100, user="kim", **window),
    ]
    return [(signal_key(one), encode_signal(one)) for one in map(filled, found)]


def history() -> Records:
    period = HistoryPeriod(
        cluster=C,
        start_ms=AT_MS // 600_000 * 600_000,
        brokers=(filled(BrokerHistory(1, 20)),),
        controller=filled(ControllerHistory()),
        tenants=(filled(TenantHistory()),),
    )
    return [(history_key(period), encode_history(period))]


def profiles() -> Records:
    forecast = LoadForecast((1e6, None), (2e5,), "seasonal")
    loads = dict.fromkeys(("client_in", "client_out", "steady_in", "steady_out"), forecast)
    capacities = dict.fromkeys(("capacity_in", "capacity_out"), LearnedCapacity(9e7, AT_MS))
    profile = BrokerProfile(cluster=C, broker=1, made_at_ms=AT_MS, start_ms=AT_MS // 3_600_000 * 3_600_000, history_s=6e5,
        quiet_p99_ms=(5.0, None), **loads, **capacities,
    )  # fmt: skip
    event = filled(ChangeEvent(C, ChangedMeasure.CLIENT_LATENCY, False, 5.0, 9.0, AT_MS, AT_MS, broker=1))
    return [(profile_key(one), encode_profile(one)) for one in (profile, event)]


def _presence() -> TunerPresence:
    return TunerPresence(
        holder="host:1",
        mode=TunerMode.DRY_RUN,
        since_ms=AT_MS,
        version="0",
        rate_bytes_per_s_max=5e7,
        rate_bytes_per_s_min=1e5,
        objective_mode="gentle",
        objective_latency_ms=50.0,
        highest_ceiling_bytes_per_s=9e7,
        page="http://host:1",
        waits_for="signals",
    )


def _orders() -> Orders:
    trial = QuotaTrial(QuotaTrialKind.MEASURE, AT_MS, AT_MS, "kim", 5.5)
    found: Orders = Orders(
        at_ms=AT_MS,
        pause=Pause(AT_MS, "kim", True),
        resumed_at_ms=AT_MS - 1,
        overrides={LEADER: Override(5, AT_MS, "kim")},
        by="kim",
        cleared=ClearedThrottles(AT_MS, "kim", ("broker 3 leader throttle",)),
        trials={trial.kind: trial},
    )
    return found


def _pairs() -> TopicThrottle:
    return TopicThrottle(*(ThrottledReplicas(pairs=frozenset({(0, 1), (0, 2)})) for _ in Side))


def checkpoint_record() -> str:
    """Returns the text of a checkpoint's rheostat.json."""
    source = "rheostat.metrics as rheostat_json from kafka-1:9092"
    record = checkpoint.CheckpointRecord(
        made_with=checkpoint.MadeWith(spark="4.2.0", state="4", window_s=30, slide_s=5, watermark_delay_s=10, shuffle_partitions=2,
            sources=(source,), kafka_ids=("kafka-id",),
        ),
        live="live-2", live_from_ms=AT_MS, whole_from_ms=AT_MS, skipped=(checkpoint.Skipped(AT_MS, AT_MS + 1, 3),),
        skipped_records=3, lost_records=1, failing=checkpoint.Failing("live-2", 4, 1, ((0, "t", 0, 9),)),
        failing_chunk=checkpoint.FailingChunk(AT_MS, 1, AT_MS - 1),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        checkpoint.write(Path(folder), record)
        return (Path(folder) / checkpoint.RECORD).read_text(encoding="utf-8")


TOPICS = {
    "journal": journal, "orders": orders, "inputs": inputs, "signals": signals, "history": history, "profiles": profiles,
}  # fmt: skip


def written_files() -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each file: a record a line, with its key and its value."""
    for topic, records in TOPICS.items():
        rows = ({"key": key.decode(), "value": json.loads(value)} for key, value in records() if value is not None)
        yield f"{topic}.jsonl", "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    yield checkpoint.RECORD, checkpoint_record()
