"""Builds the controller that works together with Cruise Control."""

from __future__ import annotations

from functools import partial

from tuner.api.cruise_control_status_store import CruiseControlStatusStore
from tuner.runtime.background_call import ThreadCaller
from tuner.runtime.cruise_control.client import CruiseControlClient
from tuner.runtime.cruise_control.loop import CruiseControlController, CruiseControlPorts
from tuner.runtime.fencing import write_refusal
from tuner.runtime.throttle.loop import ThrottleController
from tuner.wiring.context import TermContext


def cruise_control_controller(
    context: TermContext, status: CruiseControlStatusStore, throttles: ThrottleController
) -> CruiseControlController | None:
    """Returns the controller of Cruise Control's concurrency; None if the settings name no Cruise Control.

    Args:
        throttles: the throttle controller. The concurrency follows the rates that it sets.
    """
    settings = context.settings.cruise_control
    if settings is None:
        return None
    ports = CruiseControlPorts(
        api=CruiseControlClient(settings),
        caller=ThreadCaller(),
        latest=lambda: context.observers.status.snapshot().observation,
        throttle_state=lambda: throttles.throttle_state,
        orders=lambda: context.orders.latest,
        vetoes=context.vetoes,
        journal=context.observers.wrap_journal(context.journal.write).write,
        write_refusal=partial(write_refusal, context.journal),
        observer=status,
        inputs=context.inputs,
    )
    return CruiseControlController(
        ports,
        settings.limits(context.settings.external_change_hold_s),
        context.clock,
        interval_s=settings.interval_s,
        dry_run=context.settings.dry_run,
    )
