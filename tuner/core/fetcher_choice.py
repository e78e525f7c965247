"""Chooses the number of fetcher threads (num.replica.fetchers) from the estimated loads of the threads.

The busiest thread determines whether a follower keeps up. More threads nearly always reduce the load of the busiest thread a
little, but each thread costs a connection and a permanent fetch request per leader. So the module chooses the smallest number that
brings most of the gain. The current number stays unless another number is clearly better.
"""

from __future__ import annotations

from collections.abc import Sequence

from tuner.core.fetcher_load import FetcherLoad

# Smallest relative gain that is worth a change, because a change restarts every thread.
GAIN_MIN = 0.2
# Share of the best possible gain that is enough. The rest takes many more threads.
GAIN_ENOUGH = 0.8
# Largest load of a thread that leaves enough room, as a share of its capacity. Above it, a burst of writes makes followers leave
# the in-sync set.
THREAD_FILL_MAX = 0.6
_ROUNDING_RATIO = 1e-9  # Loads are sums of floats: a difference this small is none.


def choose_fetcher_load(
    current: FetcherLoad, candidates: Sequence[FetcherLoad], thread_bytes_per_s_max: float | None = None
) -> FetcherLoad:
    """Returns the current load if it brings enough of the possible gain, else the candidate with the fewest threads that does.

    The gain is the load of a single thread less the load of the busiest thread.

    Args:
        candidates: the loads with 1, 2, 3 ... threads.
        thread_bytes_per_s_max: capacity of one thread, if known. Then a load is good enough if the busiest thread has room.
    """
    if thread_bytes_per_s_max is not None:
        allowed_load = THREAD_FILL_MAX * thread_bytes_per_s_max
        sufficient = [load for load in (current, *candidates) if load.load_max <= allowed_load]
        if sufficient:
            return sufficient[0]
    smallest, single_thread = min(load.load_max for load in candidates), candidates[0].load_max
    allowed_load = single_thread - GAIN_ENOUGH * (single_thread - smallest)
    rounding = _ROUNDING_RATIO * single_thread
    return next(load for load in (current, *candidates) if load.load_max <= allowed_load + rounding)


def is_worthwhile(current: FetcherLoad, candidate: FetcherLoad) -> bool:
    """Returns whether the candidate's busiest thread has clearly less load."""
    return current.load_max > 0 and candidate.load_max <= (1 - GAIN_MIN) * current.load_max * (1 + _ROUNDING_RATIO)
