"""`rheostat quotas explain`: one burst against one quota, as Kafka's token bucket counts it, and as a mean rate would."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from rheostat.console.output import out
from rheostat.errors import EXIT_DONE
from rheostat.quotas.numbers import amount_text
from streaming.shared.units import span_text
from tuner.core.token_bucket import MeanRate, MutationQuota, TokenBucket


@dataclass(frozen=True, slots=True)
class Explained:
    """A full bucket from which ``burst`` partitions were taken at once, and the same under a mean rate."""

    quota: MutationQuota
    burst: float

    @property
    def tokens(self) -> float:
        return TokenBucket.full(self.quota, 0).with_admitted(self.quota, self.burst, 0).tokens

    @property
    def throttle_s(self) -> float:
        return TokenBucket(self.tokens, 0).throttle_ms(self.quota, 0) / 1000

    @property
    def full_again_s(self) -> float:
        return (self.quota.burst - self.tokens) / self.quota.rate_per_s

    @property
    def mean(self) -> MeanRate:
        return MeanRate().with_burst(self.burst, 0)


def run_explain(explained: Explained, *, as_json: bool) -> int:
    if as_json:
        out(json.dumps(as_record(explained), indent=2))
    else:
        out(*lines(explained))
    return EXIT_DONE


def as_record(explained: Explained) -> dict[str, Any]:
    """One JSON object; units are the last words of its keys."""
    quota, mean = explained.quota, explained.mean
    return {
        "quota": {"rate_per_s": quota.rate_per_s, "samples": quota.samples, "window_s": quota.window_s},
        "burst_partitions": explained.burst,
        "token_bucket": {
            "burst_partitions_max": quota.burst,
            "tokens": explained.tokens,
            "throttle_s": explained.throttle_s,
            "full_again_s": explained.full_again_s,
        },
        "mean_rate": {
            "rate_per_s": mean.per_s(quota, 0),
            "throttle_s": mean.throttle_s(quota, 0),
            "refused_s": mean.refused_s(quota, 0),
        },
    }


def lines(explained: Explained) -> list[str]:
    """KIP-599's two sums, with these numbers."""
    quota, mean = explained.quota, explained.mean
    rate, burst, tokens = amount_text(quota.rate_per_s), amount_text(explained.burst), amount_text(explained.tokens)
    said = [
        f"controller_mutation_rate {rate}/s over {quota.samples} samples of {amount_text(quota.window_s)} s: the bucket fills "
        f"with {rate} tokens/s and holds {amount_text(quota.burst)}, {rate} × {quota.samples} × {amount_text(quota.window_s)}.",
        f"{burst} partitions at once, from a full bucket: {amount_text(quota.burst)} − {burst} = {tokens} tokens.",
    ]
    if explained.tokens < 0:
        said.append(
            f"All of them are admitted; the next is refused (THROTTLING_QUOTA_EXCEEDED) for {span_text(explained.throttle_s)}: "
            f"{amount_text(-explained.tokens)} ÷ {rate}. The bucket is full again after {span_text(explained.full_again_s)}."
        )
    else:
        said.append(f"All of them are admitted, and the next as well: {tokens} tokens are left.")
    per_s = amount_text(mean.per_s(quota, 0))
    if mean.refused_s(quota, 0) > 0:
        said.append(
            f"A mean rate over the same window, as Kafka's other quotas have it, would stand at {per_s}/s, say "
            f"{span_text(mean.throttle_s(quota, 0))}, and refuse for {span_text(mean.refused_s(quota, 0))}: until the burst has "
            "left the window."
        )
    else:
        said.append(f"A mean rate over the same window would stand at {per_s}/s, and refuse nobody either.")
    return said
