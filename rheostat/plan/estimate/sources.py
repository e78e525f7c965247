"""Collects the figures of `rheostat plan estimate` from the command line, from files or from the live cluster.

Invariant: a figure that nobody gave and nothing measured is asked for by name; it never becomes 0.
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
from tuner.core.side_load import PlannedPartition
from tuner.planning.kip73 import RESPONSE_BYTES_MAX, Kip73Figures, kip73_figures
from tuner.planning.plan_file import (
    CurrentFile,
    CurrentPartition,
    PlanFile,
    Target,
    TopicPartition,
    parse_current,
)
from tuner.planning.plan_json import PlanFileError

F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class EstimateInputs:
    """Figures from the command line; None: not given."""

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
    """All that an answer is made of."""

    source: str
    kip73: Kip73Figures
    partitions: tuple[PlannedPartition, ...] = ()  # Of the plan; none where there are only KIP-73's figures.
    response_bytes_max: float = RESPONSE_BYTES_MAX
    window_s: float = WINDOW_S
    notes: tuple[str, ...] = ()


# -- the command line ----------------------------------------------------------------------------------------------------


def from_numbers(given: EstimateInputs) -> EstimateFigures:
    """
    Raises:
        BadInputError: naming the figures that are missing.
    """
    wanted = {
        "--move-ratio": given.move_ratio,
        "--log-size-per-broker": given.log_bytes_per_broker,
        "--brokers": given.brokers,
        "--bytes-in-max": given.bytes_in_per_s_max,
    }
    missing = [name for name, value in wanted.items() if value is None]
    if missing:
        raise BadInputError(
            f"{', '.join(missing)}: missing. Give a plan with --config (the live cluster) or --current (a file), or all four "
            f"figures of KIP-73's formula: {', '.join(wanted)}."
        )
    nothing = Kip73Figures(0.0, 0.0, 1, 0.0)
    return with_given(EstimateFigures("the command line", nothing), given)


def with_given(figures: EstimateFigures, given: EstimateInputs) -> EstimateFigures:
    """What the command line says wins over what was found."""
    kip = figures.kip73
    kip = replace(
        kip,
        move_ratio=_first(given.move_ratio, kip.move_ratio),
        log_bytes_per_broker=_first(given.log_bytes_per_broker, kip.log_bytes_per_broker),
        brokers=kip.brokers if given.brokers is None else given.brokers,
        bytes_in_per_s_max=_first(given.bytes_in_per_s_max, kip.bytes_in_per_s_max),
    )
    return replace(
        figures,
        kip73=kip,
        response_bytes_max=_first(given.response_bytes_max, figures.response_bytes_max),
        window_s=_first(given.window_s, figures.window_s),
    )


def _first(given: float | None, found: float) -> float:
    return found if given is None else given


# -- files ---------------------------------------------------------------------------------------------------------------


def read_plan(path: Path) -> PlanFile:
    """
    Raises:
        BadInputError: with every fault of the file, one a line.
    """
    return _read(path, PlanFile)


def read_current(path: Path) -> CurrentFile:
    """
    Raises:
        BadInputError: with every fault of the file, one a line.
    """
    return _read(path, parse_current)


def _read(path: Path, parse: Callable[[str, str], F]) -> F:
    try:
        return parse(_text(path), str(path))
    except PlanFileError as error:
        raise BadInputError(str(error)) from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: not UTF-8 text (byte {error.start})") from error


def from_files(plan: PlanFile, current: CurrentFile, current_path: Path, given: EstimateInputs) -> EstimateFigures:
    """
    Raises:
        BadInputError: the two don't fit together, or figures are missing.
    """
    check(plan, current.brokers, current.partitions)
    named = {b for s in current.partitions.values() for b in s.replicas} | {b for t in plan.targets for b in t.replicas}
    brokers = sorted(current.brokers if current.brokers is not None else named)
    standing = {key: _filled(one, given, current_path) for key, one in current.partitions.items()}
    planned = tuple(
        PlannedPartition(
            t.topic,
            t.partition,
            one.leader,
            frozenset(one.isr),
            one.write_bytes_per_s or 0.0,
            {broker: one.size_bytes or 0.0 for broker in t.replicas if broker not in one.replicas},
        )
        for t in plan.targets
        for one in (standing[(t.topic, t.partition)],)
    )
    held, led = defaultdict[int, float](float), defaultdict[int, float](float)
    for one in standing.values():
        led[one.leader] += one.write_bytes_per_s or 0.0
        for broker in one.replicas:
            held[broker] += one.size_bytes or 0.0
    moving = sum(bool(p.lacking_bytes) for p in planned)
    kip = kip73_figures(moving, len(standing), [held[broker] for broker in brokers], led.values())
    return with_given(EstimateFigures(str(current_path), kip, planned, notes=plan_notes(plan.targets)), given)


def _filled(one: CurrentPartition, given: EstimateInputs, path: Path) -> CurrentPartition:
    size, rate = one.size_bytes, one.write_bytes_per_s
    size, rate = given.size_bytes if size is None else size, given.write_bytes_per_s if rate is None else rate
    if size is None or rate is None:
        missing = [
            f"{what} (for all: {option})"
            for value, what, option in ((size, "size_bytes", "--size"), (rate, "write_bytes_per_s", "--write-rate"))
            if value is None
        ]
        raise BadInputError(f"{path}: partition {one.topic}-{one.partition} does not say {' and '.join(missing)}")
    return replace(one, size_bytes=size, write_bytes_per_s=rate)


def check(plan: PlanFile, brokers: Iterable[int] | None, partitions: Iterable[TopicPartition]) -> None:
    """
    Raises:
        BadInputError: naming each partition and broker of the plan that there is not.
    """
    try:
        plan.check(None if brokers is None else frozenset(brokers), frozenset(partitions))
    except PlanFileError as error:
        raise BadInputError(str(error)) from error


def plan_notes(targets: Sequence[Target]) -> tuple[str, ...]:
    if any(log_dir != "any" for target in targets for log_dir in target.log_dirs):
        return (
            "The plan names log_dirs: a copy between directories of one broker has a throttle of its own "
            "(--replica-alter-log-dirs-throttle) and is not counted here.",
        )
    return ()


# -- both ----------------------------------------------------------------------------------------------------------------


def led_by_nobody(leaders: Mapping[TopicPartition, int]) -> None:
    """
    Raises:
        CommandError: naming the partitions without a leader.
    """
    without = sorted(f"{topic}-{partition}" for (topic, partition), leader in leaders.items() if leader < 0)
    if without:
        raise CommandError(
            f"No leader: {join_names(without, 5)}. A move begins at the leader: bring its broker back first."
        )
