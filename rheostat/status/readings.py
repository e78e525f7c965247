"""The readings that the status shows besides the cluster, the signals and the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tuner.core.plan_progress import Progress
from tuner.core.presence import TunerPresence


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherReadings:
    """Readings of one refresh of the status. A reading that a caller leaves out is empty.

    Attributes:
        tuners: the running tuners, an active one first.
        leases: which collector and which stream are active (``read_lease_holders``).
        plans: the progress of the active plans, by id.
        log_dirs: the copies between log directories.
        cordons: the brokers with cordoned log directories.
    """

    tuners: Sequence[TunerPresence] = ()
    leases: Mapping[str, Any] = field(default_factory=dict)
    plans: Mapping[str, Progress] = field(default_factory=dict)
    log_dirs: Sequence[Mapping[str, Any]] = ()
    cordons: Sequence[Mapping[str, Any]] = ()
