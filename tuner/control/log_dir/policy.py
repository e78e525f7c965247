"""Decides about the limits of copies between log directories (``replica.alter.log.dirs.io.max.bytes.per.second``).

Each broker that copies gets one decision, by the first case that applies:

    unreadable         Its copies or its settings cannot be read. Nothing changes.
    external change    Another client has changed the managed limit. It is left alone until the hold expires.
    release, pause     An operator ordered it. A release restores the managed limits.
    ended              No copy was seen in two reads in a row. The managed limit is restored.
    no objective       Without a latency objective the law has no input. The copies are only reported.
    not to be changed  A limit that another owner set and the settings preserve, or copies that the settings leave without a limit.
    not measured       The newest signal is missing, old or incomplete. The limit stays, and decays to the minimum after a while.
    else               The control law (law.py) sets the limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from streaming.shared.contract import BrokerSignal
from streaming.shared.units import rate_text
from tuner.control.log_dir.decision import (
    HoldLogDirRate,
    LogDirDecision,
    LogDirReason,
    RelinquishLogDirRate,
    RestoreLogDirRate,
    SetLogDirRate,
)
from tuner.control.log_dir.law import (
    LogDirLaw,
    RateBounds,
    first_rate,
    next_rate,
    rate_bounds,
    update_law,
)
from tuner.control.log_dir.model import BrokerLogDirs, LogDirMemory, LogDirPolicy, LogDirRow, LogDirStep, LogDirView
from tuner.control.log_dir.progress import CopyHistory, CopyProgress, add_read, measure_progress
from tuner.control.throttle.state import OwnedRate
from tuner.control.throttle.steering.latency_ratio import latency_ratio
from tuner.core.cluster import ClusterUnreadable
from tuner.core.freshness import Freshness, age_s, freshness

# A copy of a small partition ends between two reads while others begin, so one read without copies does not mean the end.
READS_BEFORE_RESTORE = 2
_DECAY_STEP_S = 5.0  # Usual time between two cycles.
_LATE_WRITES_MAX = 3  # Earlier writes that may still arrive late.
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class _Case:
    """One broker in one cycle."""

    broker: int
    found: BrokerLogDirs
    signal: BrokerSignal | None
    progress: CopyProgress
    owned: OwnedRate | None
    law: LogDirLaw
    view: LogDirView
    policy: LogDirPolicy

    @property
    def rate(self) -> int | None:
        return self.found.rate.bytes_per_s if self.found.rate is not None else None

    @property
    def bounds(self) -> RateBounds:
        return rate_bounds(self.progress.written_bytes_per_s, self.policy.limits)

    def hold(self, reason: LogDirReason, why: str) -> HoldLogDirRate:
        return HoldLogDirRate(self.broker, reason, f"{log_dir_name(self.broker)}: {why}")

    def set(self, setpoint: int, reason: LogDirReason, why: str) -> SetLogDirRate:
        rate = self.rate
        head = f"{log_dir_name(self.broker)} {'unlimited' if rate is None else rate_text(rate)} → {rate_text(setpoint)}"
        is_on_broker = self.found.rate is None or self.found.rate.is_set_on_broker
        return SetLogDirRate(self.broker, rate, setpoint, reason, f"{head}: {why}", is_set_on_broker=is_on_broker)

    def restore(self, reason: LogDirReason, why: str) -> RestoreLogDirRate:
        assert self.owned is not None
        before = self.owned.before_bytes_per_s
        text = f"{log_dir_name(self.broker)} {'removed' if before is None else f'back to {rate_text(before)}'}: {why}"
        return RestoreLogDirRate(self.broker, self.found.rate_on_broker, before, reason, text)


def log_dir_name(broker: int) -> str:
    return f"broker {broker} log directory throttle"


def decide_log_dirs(view: LogDirView, memory: LogDirMemory, policy: LogDirPolicy) -> LogDirStep:
    """Returns the state after the cycle, a decision for each broker that copies or has a managed limit, and the rows to show."""
    orders = view.orders
    external = {
        broker: until_ms
        for broker, until_ms in memory.externally_owned_until_ms.items()
        if until_ms > view.now_ms and orders.resumed_at_ms <= until_ms - round(policy.external_change_hold_s * 1000)
    }
    memory = replace(memory, externally_owned_until_ms=external)
    decisions: list[LogDirDecision] = []
    rows: list[LogDirRow] = []
    for broker, found in sorted(view.brokers.items()):
        if isinstance(found, ClusterUnreadable):
            if broker in memory.watched_brokers:
                text = f"{log_dir_name(broker)}: its copies or its settings cannot be read: {found.reason}"
                decisions.append(HoldLogDirRate(broker, LogDirReason.SETTINGS_UNREADABLE, text))
            continue
        memory = _note_read(memory, broker, found, view.now_ms)
        signal = view.signals.get(broker)
        is_fresh = freshness(signal, view.now_ms, policy.limits.hold_age_s) is Freshness.FRESH
        reported = signal.log_dir_copied_bytes_per_s if signal is not None and is_fresh else None
        progress = measure_progress(found.copies, memory.histories.get(broker, CopyHistory()), reported)
        law = memory.laws.get(broker, LogDirLaw())
        case = _Case(broker, found, signal, progress, memory.owned.get(broker), law, view, policy)
        memory, decision = _decide_broker(case, memory)
        if decision is not None:
            decisions.append(decision)
        if found.copies and decision is not None:
            copied = progress.copied_bytes_per_s if reported is None else reported
            rows.append(LogDirRow(broker, progress, copied, case.rate, decision))
    return LogDirStep(memory, tuple(decisions), tuple(rows))


def _note_read(memory: LogDirMemory, broker: int, found: BrokerLogDirs, now_ms: int) -> LogDirMemory:
    if found.copies:
        history = add_read(memory.histories.get(broker, CopyHistory()), now_ms, found.copies)
        return replace(
            memory,
            histories={**memory.histories, broker: history},
            reads_without_copies=_without(memory.reads_without_copies, broker),
        )
    reads = memory.reads_without_copies.get(broker, 0) + 1
    if reads < READS_BEFORE_RESTORE and broker in memory.watched_brokers:
        return replace(memory, reads_without_copies={**memory.reads_without_copies, broker: reads})
    return replace(
        memory,
        histories=_without(memory.histories, broker),
        laws=_without(memory.laws, broker),
        reads_without_copies={**memory.reads_without_copies, broker: reads}
        if broker in memory.owned
        else _without(memory.reads_without_copies, broker),
    )


def _decide_broker(case: _Case, memory: LogDirMemory) -> tuple[LogDirMemory, LogDirDecision | None]:
    owned = case.owned
    if owned is not None and case.found.rate_on_broker not in owned.possible_rates:
        if case.found.copies:
            return _relinquish(case, owned, memory)
        # kafka-reassign-partitions --verify removes the limits of all brokers when its copies have ended.
        return replace(memory, owned=_without(memory.owned, case.broker)), None
    pause = case.view.orders.pause
    if pause is not None and not (pause.released and owned is not None):
        return memory, case.hold(LogDirReason.PAUSED, f"paused by {pause.by}") if case.found.copies else None
    if owned is not None:
        if pause is not None:
            return memory, case.restore(LogDirReason.RELEASED, f"released by {pause.by}")
        if case.policy.objective is None:
            return memory, case.restore(LogDirReason.NOT_CONFIGURED, "the settings have no latency objective any more")
        if memory.reads_without_copies.get(case.broker, 0) >= READS_BEFORE_RESTORE:
            return memory, case.restore(LogDirReason.COPIES_ENDED, "its copies have ended")
    if not case.found.copies:
        return memory, None
    return _steer(case, memory)


def _relinquish(case: _Case, owned: OwnedRate, memory: LogDirMemory) -> tuple[LogDirMemory, RelinquishLogDirRate]:
    hold_s, current = case.policy.external_change_hold_s, case.found.rate_on_broker
    now = "no limit is set" if current is None else f"{rate_text(current)} is set"
    text = (
        f"{log_dir_name(case.broker)}: rheostat had set {rate_text(owned.setpoint_bytes_per_s)}, now {now}. An operator "
        f"or another tool changed it, so rheostat leaves it alone for {hold_s / 60:.0f} min"
    )
    decision = RelinquishLogDirRate(
        case.broker, owned.setpoint_bytes_per_s, current, LogDirReason.EXTERNAL_CHANGE, text
    )
    until_ms = case.view.now_ms + round(hold_s * 1000)
    memory = replace(
        memory,
        owned=_without(memory.owned, case.broker),
        externally_owned_until_ms={**memory.externally_owned_until_ms, case.broker: until_ms},
    )
    return memory, decision


def _steer(case: _Case, memory: LogDirMemory) -> tuple[LogDirMemory, LogDirDecision]:
    """Returns the state and the decision for a broker that copies, while no operator has ordered a pause."""
    policy, signal, now_ms = case.policy, case.signal, case.view.now_ms
    if policy.objective is None:
        return memory, case.hold(
            LogDirReason.NO_OBJECTIVE, "no latency objective is set, so the copies are only reported"
        )
    if (until_ms := memory.externally_owned_until_ms.get(case.broker)) is not None:
        minutes = (until_ms - now_ms) / 60_000
        why = f"an operator or another tool set this rate; the tuner leaves it alone for another {minutes:.0f} min"
        return memory, case.hold(LogDirReason.EXTERNALLY_OWNED, why)
    if case.rate is not None and case.owned is None and not policy.adopts_existing:
        text = f"{rate_text(case.rate)} was set before the copies and is preserved"
        return memory, case.hold(LogDirReason.PRESERVED, text)
    if case.rate is None and not policy.limits_all_copies:
        return memory, case.hold(LogDirReason.NOT_THROTTLED, "no limit is set, and tuner.unthrottled_moves is leave")
    if signal is None or freshness(signal, now_ms, policy.limits.hold_age_s) is not Freshness.FRESH:
        return memory, _hold_or_decay(case)
    law = case.law
    if law.sampled_at_ms > now_ms + policy.limits.hold_age_s * 1000:
        law = LogDirLaw()  # The clock was set back, and all correct signals would count as older.
    baseline = case.view.baselines.get(case.broker)
    if signal.sampled_at_ms > law.sampled_at_ms:
        law = update_law(law, signal, baseline)
    limit = policy.objective.latency_limit(baseline, law.latency.low_p99_ms)
    ratio = latency_ratio(law.latency, signal, limit)
    if ratio is None:
        return memory, case.hold(LogDirReason.LOAD_NOT_MEASURED, "the produce latency is not measured")
    law, decision = _apply_law(case, law, signal, ratio)
    return replace(memory, laws={**memory.laws, case.broker: law}), decision


def _apply_law(case: _Case, law: LogDirLaw, signal: BrokerSignal, ratio: float) -> tuple[LogDirLaw, LogDirDecision]:
    bounds, limits, rate = case.bounds, case.policy.limits, case.rate
    clients = f"the produce latency is {ratio:.0%} of the objective" if ratio > 0 else "clients hardly write"
    if rate is None:
        setpoint = first_rate(signal, ratio, bounds)
        return law, case.set(setpoint, LogDirReason.COPY_FOUND, f"partitions are copied without a limit; {clients}")
    if case.owned is not None and law.sampled_at_ms == case.law.sampled_at_ms:
        return law, case.hold(LogDirReason.SETTLING, "no newer signal has arrived")
    result = next_rate(law, rate, signal, ratio, bounds, case.view.now_ms, limits)
    setpoint, reason = result.bytes_per_s, result.reason
    if bounds.max_bytes_per_s <= case.progress.written_bytes_per_s:
        reason = LogDirReason.INFEASIBLE
    why = {
        LogDirReason.CLIENTS_WELL: f"{clients}, and the copies use most of the limit",
        LogDirReason.CLIENTS_WAIT: clients,
        LogDirReason.HANDLERS_BUSY: f"the request handlers are idle only {signal.request_handler_idle_ratio or 0:.0%} of the "
        "time",
        LogDirReason.NEAR_OBJECTIVE: f"the limit is not raised, because {clients}, or because the request handlers are busy",
        LogDirReason.NOT_THROTTLE_LIMITED: "something else limits the copies, such as a disk",
        LogDirReason.SETTLING: "the effect of the last change is not measured yet",
        LogDirReason.AT_CEILING: f"at the ceiling of {rate_text(bounds.max_bytes_per_s)} (tuner.rate_bytes_per_s_max)",
        LogDirReason.AT_MINIMUM: f"at the minimum of {rate_text(bounds.min_bytes_per_s)}; {clients}",
        LogDirReason.INFEASIBLE: (
            f"producers write {rate_text(case.progress.written_bytes_per_s)} to the copied partitions, and the ceiling "
            "(tuner.rate_bytes_per_s_max) is not above this rate: the copies never end"
        ),
    }[reason]
    if setpoint == rate:
        return result.law, case.hold(reason, why)
    return result.law, case.set(setpoint, reason, why)


def _hold_or_decay(case: _Case) -> LogDirDecision:
    """Without a fresh signal a managed limit stays for a while, and then decays to the minimum."""
    signal, limits, rate = case.signal, case.policy.limits, case.rate
    if signal is None:
        return case.hold(LogDirReason.SIGNALS_STALE, "the broker has no signal")
    old_s = age_s(signal, case.view.now_ms)
    lowest = round(case.bounds.min_bytes_per_s)
    if case.owned is None or rate is None or rate <= lowest or old_s <= limits.decay_age_s:
        return case.hold(LogDirReason.SIGNALS_STALE, f"the newest signal is {old_s:.0f} s old")
    setpoint = max(lowest, round(rate * limits.decay_per_s**_DECAY_STEP_S))
    return case.set(setpoint, LogDirReason.STALE_DECAY, f"the newest signal is {old_s:.0f} s old")


def note_log_dir_intent(memory: LogDirMemory, change: SetLogDirRate | RestoreLogDirRate) -> LogDirMemory:
    """Returns the state before a write: the limit may have the old or the new value."""
    owned = memory.owned.get(change.broker)
    before = owned.before_bytes_per_s if owned is not None else change.found_bytes_per_s
    possible = owned.possible_rates[-_LATE_WRITES_MAX:] if owned is not None else ()
    setpoint = change.value_bytes_per_s
    owned = OwnedRate(
        before_bytes_per_s=before,
        setpoint_bytes_per_s=setpoint if setpoint is not None else (change.found_bytes_per_s or 0),
        possible_rates=tuple(dict.fromkeys((*possible, change.found_bytes_per_s, setpoint))),
    )
    return replace(memory, owned={**memory.owned, change.broker: owned})


def note_log_dir_outcome(memory: LogDirMemory, change: SetLogDirRate | RestoreLogDirRate) -> LogDirMemory:
    """Returns the state after a confirmed write; a restored limit is no longer managed."""
    if isinstance(change, RestoreLogDirRate):
        return replace(
            memory,
            owned=_without(memory.owned, change.broker),
            reads_without_copies=_without(memory.reads_without_copies, change.broker),
        )
    owned = replace(memory.owned[change.broker], possible_rates=(change.setpoint_bytes_per_s,))
    return replace(memory, owned={**memory.owned, change.broker: owned})


def _without(values: Mapping[int, _V], broker: int) -> Mapping[int, _V]:
    return {key: value for key, value in values.items() if key != broker} if broker in values else values
