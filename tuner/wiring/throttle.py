"""Builds the throttle controller of a leadership term."""

from __future__ import annotations

import time

from streaming.shared.kafka.cluster import ClusterClient
from tuner.control.throttle.state import Memory
from tuner.core.throttle_limits import StallLimits
from tuner.runtime.fencing import FencedThrottles
from tuner.runtime.throttle.actuator import DryRunThrottles, KafkaThrottles, Throttles
from tuner.runtime.throttle.deadline_forecasts import DeadlineForecasts
from tuner.runtime.throttle.eta_forecasts import EtaForecasts
from tuner.runtime.throttle.forecast_inputs import ForecastInputs
from tuner.runtime.throttle.loop import ThrottleConfig, ThrottleController, ThrottlePorts
from tuner.runtime.throttle.ramp_executor import RampExecutor
from tuner.wiring.context import TermContext
from tuner.wiring.steering import steering_controller


def throttle_controller(context: TermContext, client: ClusterClient, memory: Memory) -> ThrottleController:
    """Returns a controller that continues from ``memory``. In a dry run it writes nothing to Kafka."""
    settings, kafka_throttles = context.settings, KafkaThrottles(client)
    throttles: Throttles = (
        DryRunThrottles(kafka_throttles) if settings.dry_run else FencedThrottles(kafka_throttles, context.journal)
    )
    writes_per_s_max = settings.config_writes_per_s_max
    context.signals.includes_recoveries = settings.recovery == "act"
    forecast_inputs = ForecastInputs(
        lambda: context.signals.profiles, context.signals.link_speed_bytes_per_s, context.file_settings
    )
    ports = ThrottlePorts(
        live=context.live,
        signals=context.signals,
        throttles=throttles,
        orders=context.orders,
        journal=context.observers.wrap_journal(context.journal.write),
        observer=context.observers,
        inputs=context.inputs,
        outbox=context.outbox,
        recoveries=context.recoveries,
        vetoes=context.vetoes,
        eta_ratios=EtaForecasts(forecast_inputs).ratios,
        deadline_forecasts=DeadlineForecasts(forecast_inputs, context.file_settings.law_limits()).forecasts,
    )
    config = ThrottleConfig(
        limits=settings.limits(),
        stall_limits=StallLimits(),
        writes_per_s_max=writes_per_s_max,
        dry_run=settings.dry_run,
    )
    return ThrottleController(
        ports,
        config,
        context.clock,
        memory=memory,
        ramps=RampExecutor(throttles, writes_per_s_max=writes_per_s_max),
        steering=steering_controller(settings, throttles, context.inputs),
        processor_s=time.process_time,
    )
