"""Which num.replica.fetchers to go for, of those whose loads are known.

Intuition: what a follower can't keep up with is its busiest thread, so that one counts. More threads nearly always lighten it
a little more, and each costs a connection and a request under way for every leader; so enough is better than best.

Invariant: what stands is kept unless something is clearly better.
"""

from __future__ import annotations

from collections.abc import Sequence

from tuner.control.throttle.diagnosis.fetcher_load import FetcherLoad

# A change makes every thread start anew, and is not worth less than this.
GAIN_MIN = 0.2
# Of what any value could bring: the last of it takes many threads, each of them a connection that asks all day.
GAIN_ENOUGH = 0.8
# Of what one thread can copy: above it, a burst of writes makes followers leave the in-sync set.
THREAD_FILL_MAX = 0.6


def choose_fetcher_load(
    today: FetcherLoad, all_of: Sequence[FetcherLoad], thread_bytes_per_s_max: float | None = None
) -> FetcherLoad:
    """The outlook to go for: today's where it brings most of what any could, else the fewest threads that do.

    Args:
        all_of: for 1, 2, 3 and so on.
        thread_bytes_per_s_max: what one thread can copy, if that is known: then it is enough that the busiest has room.
    """
    if thread_bytes_per_s_max is not None:
        roomy = THREAD_FILL_MAX * thread_bytes_per_s_max
        enough = [one for one in (today, *all_of) if one.load_max <= roomy]
        if enough:
            return enough[0]
    least, alone = min(one.load_max for one in all_of), all_of[0].load_max
    bar = alone - GAIN_ENOUGH * (alone - least)
    return next(one for one in (today, *all_of) if one.load_max <= bar + 1e-9 * alone)


def is_worthwhile(today: FetcherLoad, then: FetcherLoad) -> bool:
    """Whether the busiest thread has clearly less to do."""
    return today.load_max > 0 and then.load_max <= (1 - GAIN_MIN) * today.load_max * (1 + 1e-9)
