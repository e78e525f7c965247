"""What speaks against a plan before anything of it is begun: what forbids it, and what a person should know. Pure.

Intuition: a plan that can't end is told in seconds here and in hours there. So what is certain forbids, and what only may be so is
said: a disk that would be full forbids, one that would be nearly full is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rheostat.reassign.plan_input import PlanGround, PlanInput
from streaming.shared.contract import Side
from streaming.shared.kafka.reassignments import Disk
from streaming.shared.units import rate_text, size_text, span_text
from tuner.control.reassignment.explain import name_partitions
from tuner.control.reassignment.scheduler_model import WaitingPartition, planned_partitions
from tuner.core.batch_limits import BatchLimits
from tuner.core.cluster import BrokerSide, side_name
from tuner.core.partition_limits import INTERNAL_TOPICS, PartitionLimits, count_partitions
from tuner.core.reassignment_plan import Plan
from tuner.core.reassignment_steps import PartitionTransition
from tuner.planning.fluid_bound import FluidBound, fluid_bound
from tuner.planning.time_estimate import estimate_s

DISK_SHARE_WARN = 0.9


@dataclass(frozen=True, slots=True)
class Checked:
    forbidden: tuple[str, ...]  # Each is reason enough not to begin.
    notes: tuple[str, ...]
    fluid: FluidBound  # The best that any order can do at the ceiling.
    expected_s: float | None = None  # About what it takes; None: it never ends, or it is not throttled.
    takes: tuple[str, ...] = ()  # How much is copied, and about how long that takes.


def checked(
    given: PlanInput,
    ground: PlanGround,
    *,
    rate_bytes_per_s_max: float | None,
    limits: PartitionLimits,
    may_change_factor: bool,
    batch: BatchLimits | None = None,
    others: Sequence[Plan] = (),
    leaders_ratio: float = 1.0,
    steers: bool = False,
) -> Checked:
    """
    Args:
        rate_bytes_per_s_max: of every throttle; None: the plan is not throttled.
        steers: a latency objective may lower that.
        leaders_ratio: of it, what leaders have while the plan goes on.
        may_change_factor: somebody said that partitions may have more or fewer replicas than before.
        batch: how many may be under way at a time; None: as many as there are.
        others: plans on record that have not ended.
    """
    rates: dict[BrokerSide, float] = {}
    if rate_bytes_per_s_max is not None:
        rates = {(b, side): rate_bytes_per_s_max for b in ground.standing.brokers for side in Side}
    partitions = planned_partitions(_waiting(given, ground))
    best = fluid_bound(partitions, rates)
    expected = estimate_s(best, partitions, rates, batch or BatchLimits(), leaders_ratio) if rates else None
    added = _added_bytes(given, ground, others)
    forbidden = [
        *_factor(given, may_change_factor),
        *_dead_targets(given, ground),
        *_over_limits(given, ground, limits, others),
        *_full_disks(added, ground),
        *(_never_end(best, rate_bytes_per_s_max) if rate_bytes_per_s_max is not None else ()),
    ]
    notes = [
        *_waited_for(given, ground),
        *_fewer_racks(given, ground),
        *_nearly_full_disks(added, ground),
    ]
    takes = _takes(best, expected, rate_bytes_per_s_max, steers=steers)
    return Checked(tuple(forbidden), tuple(notes), best, expected, takes)


def ways_of(given: PlanInput, ground: PlanGround) -> list[PartitionTransition]:
    states = ground.standing.partitions
    return [
        PartitionTransition(
            topic,
            number,
            part.original_replicas,
            part.target,
            states[(topic, number)].leader,
            frozenset(states[(topic, number)].isr),
            # More than the partition is meant to have can't be asked of it.
            min(ground.min_in_sync.get(topic, 1), len(part.target)),
        )
        for (topic, number), part in sorted(given.parts.items())
    ]


def _waiting(given: PlanInput, ground: PlanGround) -> list[WaitingPartition]:
    return [
        WaitingPartition(way, part.size_bytes, part.write_bytes_per_s)
        for way in ways_of(given, ground)
        for part in (given.parts[(way.topic, way.partition)],)
    ]


def _factor(given: PlanInput, may_change: bool) -> list[str]:
    changed = [key for key, part in given.parts.items() if len(part.target) != len(part.original_replicas)]
    if not changed or may_change:
        return []
    part = given.parts[min(changed)]
    return [
        f"{name_partitions(changed)}: {len(part.original_replicas)} replicas now and {len(part.target)} in the plan; "
        "if that is meant, say --allow-replication-factor-change"
    ]


def _dead_targets(given: PlanInput, ground: PlanGround) -> list[str]:
    dead = {b for part in given.parts.values() for b in part.target if b not in part.original_replicas} - {
        *ground.standing.brokers
    }
    keys = [key for key, part in given.parts.items() if dead & {*part.target} - {*part.original_replicas}]
    if not dead:
        return []
    return [
        f"{name_partitions(keys)}: to go to brokers that are down: {', '.join(map(str, sorted(dead)))}; bring them back first"
    ]


def _over_limits(given: PlanInput, ground: PlanGround, limits: PartitionLimits, others: Sequence[Plan]) -> list[str]:
    """Brokers to which the plan brings something, and that have more than they may once it, and those on record, are done."""
    comes = Counter[int]()
    grows = 0  # By this plan alone.
    more = _others_more(ground, others)
    for (topic, _), part in given.parts.items():
        if topic not in INTERNAL_TOPICS:
            new, gone = {*part.target} - {*part.original_replicas}, {*part.original_replicas} - {*part.target}
            comes.update(new)
            more.update(new)
            more.subtract(gone)
            grows += len(new) - len(gone)
    counts = count_partitions(
        ((key, s.replicas) for key, s in ground.standing.partitions.items()), ground.standing.brokers
    )
    total = counts.total + sum(more.values())
    most = limits.cluster_max
    whole = f"the cluster would have {total}, and max.partitions is {'not set' if most is None else most}"
    said = [
        f"POLICY_VIOLATION: broker {broker} would have {count} partitions, "
        f"and its max.broker.partitions is {limits.for_broker(broker)} ({whole})"
        for broker in sorted(comes)
        for count in [counts.on_broker(broker) + more[broker]]
        if count > limits.for_broker(broker)
    ]
    # What only moves may do so where the cluster is full (the KIP's Compatibility); what grows is as if it were created.
    if most is not None and grows > 0 and total > most:
        said.append(f"POLICY_VIOLATION: {whole}; the plan adds {grows} replicas more than it takes away")
    return said


def _others_more(ground: PlanGround, others: Sequence[Plan]) -> Counter[int]:
    """By broker, what plans on record still bring there, less what they take away."""
    more = Counter[int]()
    for plan in others:
        for key, part in plan.partitions.items():
            now = ground.standing.partitions.get(key)
            if now is not None and key[0] not in INTERNAL_TOPICS and not plan.head.no_rollback:
                more.update({*plan.goal(part)} - {*now.replicas})
                more.subtract({*now.replicas} - {*plan.goal(part)})
    return more


def _added_bytes(given: PlanInput, ground: PlanGround, others: Sequence[Plan]) -> dict[int, float]:
    """What is copied onto each broker, and what plans on record still have to copy; what leaves it comes free only later."""
    added: dict[int, float] = {}
    for part in given.parts.values():
        for broker in part.target:
            if broker not in part.original_replicas:
                added[broker] = added.get(broker, 0.0) + part.size_bytes
    for key, part in ((key, part) for plan in others for key, part in plan.partitions.items()):
        now = ground.standing.partitions.get(key)
        there = () if now is None else [b for b in now.replicas if b not in now.adding]
        for broker in part.target:
            if broker not in there:
                added[broker] = added.get(broker, 0.0) + part.size_bytes
    return added


def _volumes(disks: Sequence[Disk]) -> tuple[float, float]:
    """Usable and total bytes of all; directories that say the same of their volume are on one."""
    seen = {(disk.total_bytes, disk.usable_bytes) for disk in disks}
    return float(sum(usable for _, usable in seen)), float(sum(total for total, _ in seen))


def _usable_at_most(disks: Sequence[Disk]) -> float:
    """If each is a disk of its own: new disks of one make say the same, too."""
    return float(sum(disk.usable_bytes for disk in disks))


def _full_disks(added_bytes: Mapping[int, float], ground: PlanGround) -> list[str]:
    said = []
    for broker, added in sorted(added_bytes.items()):
        usable = _usable_at_most(ground.disks.get(broker, ()))
        _, total = _volumes(ground.disks.get(broker, ()))
        if total and added > usable:
            said.append(
                f"broker {broker}: {size_text(added)} are to be copied there, and its disks have room for {size_text(usable)}; "
                "give it more, or move less"
            )
    return said


def _nearly_full_disks(added_bytes: Mapping[int, float], ground: PlanGround) -> list[str]:
    said = []
    for broker, added in sorted(added_bytes.items()):
        disks = ground.disks.get(broker, ())
        usable, total = _volumes(disks)
        if total and usable < added <= _usable_at_most(disks):
            said.append(
                f"broker {broker}: {size_text(added)} are to be copied there. Its {len(disks)} directories tell of the same room: "
                f"if they are on one disk, that has room for {size_text(usable)}"
            )
        if total and added <= usable and total - usable + added > DISK_SHARE_WARN * total:
            share = (total - usable + added) / total
            said.append(f"broker {broker}: its disks will be {share:.0%} full")
    unknown = sorted(b for b in added_bytes if b not in ground.disks or not ground.disks[b])
    if unknown:
        said.append(f"how much room the disks of brokers {', '.join(map(str, unknown))} have is not known")
    return said


def _never_end(best: FluidBound, rate_bytes_per_s_max: float) -> list[str]:
    if not best.never:
        return []
    keys = sorted({(topic, number) for topic, number, _ in best.never})
    side = best.never[0][2]
    return [
        f"{name_partitions(keys)}: keeping up with what is written takes more than the throttle "
        f"({rate_text(rate_bytes_per_s_max)}) lets through, on the {side_name(side)} for one: the copy would never end. Raise it "
        "(tuner.rate_bytes_per_s_max, or --throttle where one was given), "
        "or move them when less is written"
    ]


def _waited_for(given: PlanInput, ground: PlanGround) -> list[str]:
    states = ground.standing.partitions
    moving = [key for key in given.parts if states[key].adding or states[key].removing]
    leaderless = [key for key in given.parts if states[key].leader < 0]
    said = []
    if moving:
        said.append(f"{name_partitions(moving)}: being reassigned already; waited for")
    if leaderless:
        said.append(f"{name_partitions(leaderless)}: nobody leads; waited for")
    return said


def _fewer_racks(given: PlanInput, ground: PlanGround) -> list[str]:
    racks = ground.standing.racks
    if not racks or None in racks.values():
        return []

    def spread(replicas: Sequence[int]) -> int:
        return len({racks[b] for b in replicas if b in racks})

    fewer = [
        key
        for key, part in given.parts.items()
        if spread(part.target) < min(len(part.target), spread(part.original_replicas))
    ]
    return [f"{name_partitions(fewer)}: on fewer racks than before"] if fewer else []


def _takes(
    best: FluidBound, expected: float | None, rate_bytes_per_s_max: float | None, *, steers: bool
) -> tuple[str, ...]:
    if not best.copied_bytes:
        return ()
    bytes_text = f"{size_text(best.copied_bytes)} are to be copied"
    if rate_bytes_per_s_max is None:
        return (f"{bytes_text}; how long that takes without a throttle is not known.",)
    if best.time_s is None or expected is None:
        return ()
    where = "" if best.slowest is None else f", which the {side_name(best.slowest)} needs"
    longer = ", and longer where clients need the brokers more" if steers else ""
    return (
        f"{bytes_text}: about {span_text(expected)} at {rate_text(rate_bytes_per_s_max)}{longer}. No order of the steps is faster "
        f"than {span_text(best.time_s)}{where}.",
    )
