"""The expected end of all moves and plans, for the metrics and for ``/status``, which are built without a status snapshot."""

from __future__ import annotations

from tuner.api.plan_status_store import PlanSnapshot
from tuner.api.plan_views import plan_progress
from tuner.api.status_store import CycleResult
from tuner.core.plan_progress import expected_end


def ends_at_ms(result: CycleResult, plans: PlanSnapshot) -> int | None:
    """Returns the expected end (epoch ms), the same as in the API status; None while it is unknown."""
    eta_s = expected_end(
        result.signals_for_end(result.destinations()),
        stalled=bool(result.stalled_brokers()),
        plans=plan_progress(plans),
        eta_ratios=result.eta_ratios(),
    ).eta_s
    if eta_s is None or result.observation is None:
        return None
    return result.observation.now_ms + round(eta_s * 1000)
