"""Over how many seconds a tenant's bucket holds its quota, as the nodes have it. KIP-599.

A burst is rate × samples × seconds, and whether somebody is held back is read off how full its bucket is. The controllers' own
settings decide, and in KRaft no broker tells what a controller has. But whoever changes them changes the settings of every node:
what all brokers have alike is taken to be the controllers' as well, unless the operator says what it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from tuner.core.token_bucket import SAMPLES, WINDOW_S


@dataclass(frozen=True, slots=True)
class QuotaWindow:
    samples: int = SAMPLES  # controller.quota.window.num
    window_s: float = WINDOW_S  # controller.quota.window.size.seconds
