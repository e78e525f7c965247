"""Collects the figures of `rheostat plan estimate` from the command line or from files.

Invariant: a missing figure is an error that names its option; it never counts as 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from rheostat.errors import BadInputError, CommandError
from streaming.shared.short_lists import join_names
from tuner.control.throttle.quota_window.ramp import WINDOW_S
from tuner.core.reassignment_plan import TopicPartition
from tuner.core.side_load import PlannedPartition
from tuner.planning.kip73 import RESPONSE_BYTES_MAX, Kip73Figures, kip73_figures
from tuner.planning.plan_file import (
    CurrentFile,
    CurrentPartition,
    PlanFile,
    Target,
    parse_current,
)
from tuner.planning.plan_json import PlanFileError

F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class EstimateInputs:
    """Figures from the command line; None if not given.

    ``size_bytes`` and ``write_bytes_per_s`` apply to partitions for which the file has no value. Each other figure replaces the
    figure from the cluster or the file.
    """

    size_bytes: float | None = None
    write_bytes_per_s: float | None = None
    move_ratio: float | None = None
    log_bytes_per_broker: float | None = None
    brokers: int | None = None
    bytes_in_per_s_max: float | None = None
    response_bytes_max: float | None = None
    window_s: float | None = None


@dataclass(frozen=True, slots=True)
class EstimateFigures:
    """The input of both estimates: KIP-73's formula for the whole cluster, and the estimate by broker side.

    Attributes:
        source: the origin of the figures, as text for the operator.
        partitions: all partitions of the plan; empty if there are only KIP-73's figures.
        response_bytes_max: replica.fetch.response.max.bytes.
        window_s: length of the replication quota's window.
        notes: sentences for the operator.
    """

    source: str
    kip73: Kip73Figures
    partitions: tuple[PlannedPartition, ...] = ()
    response_bytes_max: float = RESPONSE_BYTES_MAX
    window_s: float = WINDOW_S
    notes: tuple[str, ...] = ()


# -- the command line ----------------------------------------------------------------------------------------------------


def from_numbers(inputs: EstimateInputs) -> EstimateFigures:
    """Returns KIP-73's figures from the command line alone.

    Raises:
        BadInputError: naming the figures that are missing.
    """
    options = {
        "--move-ratio": inputs.move_ratio,
        "--log-size-per-broker": inputs.log_bytes_per_broker,
        "--brokers": inputs.brokers,
        "--max-bytes-in": inputs.bytes_in_per_s_max,
    }
    missing = [name for name, value in options.items() if value is None]
    if missing:
        raise BadInputError(
            f"{', '.join(missing)}: missing. Give a plan file together with --config (for the live cluster) or --current (for an "
            f"assignment in a file). Or, without a plan file, give all four figures of KIP-73's formula: {', '.join(options)}."
        )
    # All four figures are given, so the overrides replace these values.
    placeholder = Kip73Figures(move_ratio=0.0, log_bytes_per_broker=0.0, brokers=1, bytes_in_per_s_max=0.0)
    return apply_overrides(EstimateFigures("the command line", placeholder), inputs)


def apply_overrides(figures: EstimateFigures, inputs: EstimateInputs) -> EstimateFigures:
    """Returns the figures. A figure from the command line replaces the figure from the cluster or the file."""
    kip = figures.kip73
    kip = replace(
        kip,
        move_ratio=_override(kip.move_ratio, inputs.move_ratio),
        log_bytes_per_broker=_override(kip.log_bytes_per_broker, inputs.log_bytes_per_broker),
        brokers=kip.brokers if inputs.brokers is None else inputs.brokers,
        bytes_in_per_s_max=_override(kip.bytes_in_per_s_max, inputs.bytes_in_per_s_max),
    )
    return replace(
        figures,
        kip73=kip,
        response_bytes_max=_override(figures.response_bytes_max, inputs.response_bytes_max),
        window_s=_override(figures.window_s, inputs.window_s),
    )


def _override(value: float, option: float | None) -> float:
    return value if option is None else option


# -- files ---------------------------------------------------------------------------------------------------------------


def read_plan(path: Path) -> PlanFile:
    """Reads a plan file.

    Raises:
        BadInputError: with every fault of the file, one per line.
    """
    return _read(path, PlanFile)


def read_current(path: Path) -> CurrentFile:
    """Reads a file with the current assignment.

    Raises:
        BadInputError: with every fault of the file, one per line.
    """
    return _read(path, parse_current)


def _read(path: Path, parse: Callable[[str, str], F]) -> F:
    try:
        return parse(_read_text(path), str(path))
    except PlanFileError as error:
        raise BadInputError(str(error)) from error


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: not UTF-8 text (byte {error.start})") from error


def from_files(plan: PlanFile, current: CurrentFile, current_path: Path, inputs: EstimateInputs) -> EstimateFigures:
    """Returns the figures of a plan file and a file with the current assignment.

    Raises:
        BadInputError: the files do not fit together, or figures are missing.
    """
    check_targets_exist(plan, current.brokers, current.partitions)
    if current.brokers is not None:
        brokers = sorted(current.brokers)
    else:
        hosts = {b for state in current.partitions.values() for b in state.replicas}
        brokers = sorted(hosts | {b for target in plan.targets for b in target.replicas})
    # Every partition of ``states`` has a size and a write rate; ``or 0.0`` below only satisfies the type checker.
    states = {key: _fill_in(state, inputs, current_path) for key, state in current.partitions.items()}
    planned = tuple(_plan_partition(states[(target.topic, target.partition)], target) for target in plan.targets)
    held_bytes, led_bytes_per_s = defaultdict[int, float](float), defaultdict[int, float](float)
    for state in states.values():
        led_bytes_per_s[state.leader] += state.write_bytes_per_s or 0.0
        for broker in state.replicas:
            held_bytes[broker] += state.size_bytes or 0.0
    moving = sum(bool(partition.lacking_bytes) for partition in planned)
    kip = kip73_figures(moving, len(states), [held_bytes[broker] for broker in brokers], led_bytes_per_s.values())
    return apply_overrides(EstimateFigures(str(current_path), kip, planned, notes=plan_notes(plan.targets)), inputs)


def _plan_partition(state: CurrentPartition, target: Target) -> PlannedPartition:
    size_bytes = state.size_bytes or 0.0
    return PlannedPartition(
        target.topic,
        target.partition,
        leader=state.leader,
        isr=frozenset(state.isr),
        write_bytes_per_s=state.write_bytes_per_s or 0.0,
        lacking_bytes={broker: size_bytes for broker in target.replicas if broker not in state.replicas},
    )


def _fill_in(state: CurrentPartition, inputs: EstimateInputs, path: Path) -> CurrentPartition:
    """Returns the partition with size and write rate, from the command line if the file has none.

    Raises:
        BadInputError: naming the figures that are missing.
    """
    size = inputs.size_bytes if state.size_bytes is None else state.size_bytes
    rate = inputs.write_bytes_per_s if state.write_bytes_per_s is None else state.write_bytes_per_s
    if size is None or rate is None:
        missing = [
            f"{key} (for all: {option})"
            for value, key, option in ((size, "size_bytes", "--size"), (rate, "write_bytes_per_s", "--write-rate"))
            if value is None
        ]
        raise BadInputError(f"{path}: partition {state.topic}-{state.partition} lacks {' and '.join(missing)}")
    return replace(state, size_bytes=size, write_bytes_per_s=rate)


# -- plans and partitions ------------------------------------------------------------------------------------------------


def check_targets_exist(plan: PlanFile, brokers: Iterable[int] | None, partitions: Iterable[TopicPartition]) -> None:
    """Checks that the partitions and brokers of the plan exist.

    Args:
        brokers: the existing brokers; None if they are not known, so that brokers are not checked.

    Raises:
        BadInputError: naming each partition and broker that does not exist.
    """
    try:
        plan.check(None if brokers is None else frozenset(brokers), frozenset(partitions))
    except PlanFileError as error:
        raise BadInputError(str(error)) from error


def plan_notes(targets: Sequence[Target]) -> tuple[str, ...]:
    """Returns a note if the plan also copies data between directories of one broker."""
    if any(log_dir != "any" for target in targets for log_dir in target.log_dirs):
        return (
            "The plan names log_dirs: a copy between directories of one broker has its own throttle "
            "(--replica-alter-log-dirs-throttle) and is not part of the estimate.",
        )
    return ()


def check_leaders(leaders: Mapping[TopicPartition, int]) -> None:
    """Checks that each partition has a leader.

    Raises:
        CommandError: naming the partitions without one.
    """
    leaderless = sorted(f"{topic}-{partition}" for (topic, partition), leader in leaders.items() if leader < 0)
    if leaderless:
        raise CommandError(
            f"No leader: {join_names(leaderless, 5)}. Data is copied from the leader: start a broker of the ISR first."
        )
