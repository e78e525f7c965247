"""The window of Kafka's controller mutation quota (KIP-599): number and length of its samples.

A tenant's burst is rate × samples × seconds, and a tenant is throttled once its bucket is empty. The settings of the controllers
determine samples and seconds. In KRaft no broker reports the settings of a controller, but operators usually set them on every
node. So values that all brokers share are assumed for the controllers too, unless the operator configures others.
"""

from __future__ import annotations

from dataclasses import dataclass

from tuner.core.token_bucket import SAMPLES, WINDOW_S


@dataclass(frozen=True, slots=True)
class QuotaWindow:
    """The settings of the controllers' quota window."""

    samples: int = SAMPLES  # controller.quota.window.num
    window_s: float = WINDOW_S  # controller.quota.window.size.seconds
