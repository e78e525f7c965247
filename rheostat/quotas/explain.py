"""Runs `rheostat quotas explain`: the effect of one burst on a token-bucket quota, and on a quota that limits a mean rate."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from rheostat.console.output import out
from rheostat.errors import EXIT_DONE
from rheostat.quotas.numbers import amount_text
from streaming.shared.units import span_text
from tuner.core.token_bucket import MeanRate, MutationQuota, TokenBucket

_NOW_MS = 0  # The time of the burst; all results are for this moment.


@dataclass(frozen=True, slots=True)
class BurstExample:
    """A burst of ``burst`` partitions at once: its effect on a full token bucket, and on a quota that limits a mean rate."""

    quota: MutationQuota
    burst: float

    @property
    def tokens(self) -> float:
        """Returns the tokens after the burst; a negative number is a debt."""
        return TokenBucket.full(self.quota, _NOW_MS).with_admitted(self.quota, self.burst, _NOW_MS).tokens

    @property
    def throttle_s(self) -> float:
        """Returns how long Kafka refuses further requests after the burst."""
        return TokenBucket(self.tokens, _NOW_MS).throttle_ms(self.quota, _NOW_MS) / 1000

    @property
    def full_again_s(self) -> float:
        """Returns the time until the bucket is full again."""
        return (self.quota.burst - self.tokens) / self.quota.rate_per_s

    @property
    def mean_rate(self) -> MeanRate:
        return MeanRate().with_burst(self.burst, _NOW_MS)


def run_explain(example: BurstExample, *, as_json: bool) -> int:
    if as_json:
        out(json.dumps(as_record(example), indent=2))
    else:
        out(*lines(example))
    return EXIT_DONE


def as_record(example: BurstExample) -> dict[str, Any]:
    """Returns the example as one JSON object; keys end with their unit."""
    quota, mean = example.quota, example.mean_rate
    return {
        "quota": {"rate_per_s": quota.rate_per_s, "samples": quota.samples, "window_s": quota.window_s},
        "burst_partitions": example.burst,
        "token_bucket": {
            "burst_partitions_max": quota.burst,
            "tokens": example.tokens,
            "throttle_s": example.throttle_s,
            "full_again_s": example.full_again_s,
        },
        "mean_rate": {
            "rate_per_s": mean.per_s(quota, _NOW_MS),
            "throttle_s": mean.throttle_s(quota, _NOW_MS),
            "refused_s": mean.refused_s(quota, _NOW_MS),
        },
    }


def lines(example: BurstExample) -> list[str]:
    """Returns the example as sentences, with KIP-599's two formulas."""
    quota, mean = example.quota, example.mean_rate
    rate, burst, tokens = amount_text(quota.rate_per_s), amount_text(example.burst), amount_text(example.tokens)
    sentences = [
        f"controller_mutation_rate {rate}/s over {quota.samples} samples of {amount_text(quota.window_s)} s: the bucket fills "
        f"with {rate} tokens/s and holds {amount_text(quota.burst)}, {rate} × {quota.samples} × {amount_text(quota.window_s)}.",
        f"{burst} partitions at once, from a full bucket: {amount_text(quota.burst)} − {burst} = {tokens} tokens.",
    ]
    if example.tokens < 0:
        sentences.append(
            "All of them are admitted; the next request is refused (THROTTLING_QUOTA_EXCEEDED) for "
            f"{span_text(example.throttle_s)}: {amount_text(-example.tokens)} ÷ {rate}. The bucket is full again after "
            f"{span_text(example.full_again_s)}."
        )
    else:
        sentences.append(f"All of them are admitted, and so is the next request: {tokens} tokens are left.")
    per_s = amount_text(mean.per_s(quota, _NOW_MS))
    if mean.refused_s(quota, _NOW_MS) > 0:
        sentences.append(
            f"A quota by mean rate over the same window, like Kafka's other quotas, would measure {per_s}/s. It would return a "
            f"throttle time of {span_text(mean.throttle_s(quota, _NOW_MS))}, but refuse requests for "
            f"{span_text(mean.refused_s(quota, _NOW_MS))}, until the burst has left the window."
        )
    else:
        sentences.append(
            f"A quota by mean rate over the same window would measure {per_s}/s, and refuse no request either."
        )
    return sentences
