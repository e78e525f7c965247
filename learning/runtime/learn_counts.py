"""Counts of `rheostat learn` since its start, for its metrics and its log."""

from __future__ import annotations

from dataclasses import dataclass

from streaming.shared.contract.profiles import BrokerProfile, ChangeEvent


@dataclass(slots=True)
class LearnCounts:
    """Counts since the start.

    Attributes:
        records: periods of this cluster that were read.
        refused: records that are not a valid period, or that have an impossible time.
        written: records that the profiles topic has accepted.
        failed: records that the profiles topic has not accepted; they are sent again.
        learned_to_s: end of the newest hour that was learned; epoch. None: no hour yet.
        learn_s: seconds that the newest call took to learn its hours and to make the profiles.
        brokers_left_out, tenants_left_out: how many of the newest period are not learned, because there are too many.
        profiles, events: the newest profiles and events.
    """

    records: int = 0
    refused: int = 0
    written: int = 0
    failed: int = 0
    learned_to_s: float | None = None
    learn_s: float = 0.0
    brokers_left_out: int = 0
    tenants_left_out: int = 0
    profiles: tuple[BrokerProfile, ...] = ()
    events: tuple[ChangeEvent, ...] = ()
