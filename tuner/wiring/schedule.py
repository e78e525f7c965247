"""Applies the settings of each period of ``tuner.schedule`` without ending the leadership term."""

from __future__ import annotations

from collections.abc import Callable

from tuner.journal.term_entries import follow_settings_entry, settings_in_force
from tuner.runtime.leadership_term import Controllers
from tuner.runtime.reload import show_settings
from tuner.settings.schedule_periods import SettingsPeriod, SettingsSchedule
from tuner.wiring.context import TermContext
from tuner.wiring.log_dir import log_dir_policy
from tuner.wiring.status import StatusStores
from tuner.wiring.steering import settings_snapshot


def schedule_follower(
    context: TermContext,
    schedule: SettingsSchedule,
    begun: SettingsPeriod,
    controllers: Controllers,
    status: StatusStores,
) -> Callable[[], None]:
    """Returns a function that changes the policy of the controllers, the recording and the status when a new period begins.

    Args:
        begun: the period with whose settings the controllers were built.
    """
    current = begun

    def follow() -> None:
        nonlocal current
        period = schedule.at(context.clock.now_ms())
        if period is current:
            return
        current = period
        settings = period.settings
        context.inputs.change_settings(settings_snapshot(settings))
        controllers.throttles.change_policy(settings.limits(), settings.control_objective(), settings.law_limits())
        if controllers.log_dirs is not None:
            controllers.log_dirs.policy = log_dir_policy(settings)
        in_force = settings_in_force(settings.limits(), settings.control_objective())
        context.outbox.entries.append(follow_settings_entry(in_force, context.clock.now_ms(), dry_run=settings.dry_run))
        show_settings(period, context.partition_limits, status.throttles, status.quotas)

    return follow
