"""The service of the status page that previews and starts plans. It imports the checks only when it is first used.

The checks need numpy, which takes memory in every tuner, although few tuners are asked for a preview.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rheostat.config.settings import Settings
from tuner.api.plan_service import PlanPreview, PlanRefused, PlanToStart, StartedPlan

_WAIT_S_MAX = 5.0


class PagePlanService:
    """Checks one plan at a time, since each check reads the whole cluster. So two equal orders at once start only one plan."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()

    def preview(self, request: PlanToStart) -> PlanPreview:
        from rheostat.reassign.page_plans import preview_plan

        with self._turn():
            return preview_plan(self._settings, request)

    def start(self, request: PlanToStart, by: str) -> StartedPlan:
        from rheostat.reassign.page_plans import start_plan

        with self._turn():
            return start_plan(self._settings, request, by)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """
        Raises:
            PlanRefused: another plan is still being checked.
        """
        if not self._lock.acquire(timeout=_WAIT_S_MAX):
            raise PlanRefused("another plan is being checked: try again in some seconds", 503)
        try:
            yield
        finally:
            self._lock.release()
