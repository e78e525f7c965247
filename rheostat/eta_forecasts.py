"""Forecasts, for a command, how the expected time of running moves differs from the time at their current rate."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from rheostat.broker_signals import read_link_speeds
from rheostat.config.settings import Settings
from rheostat.errors import CommandError
from rheostat.plan.cluster_layout import open_cluster
from rheostat.profiles import read_profiles
from streaming.shared.contract import BrokerProfile
from tuner.runtime.throttle.eta_forecasts import EtaForecasts
from tuner.runtime.throttle.forecast_inputs import ForecastInputs


def eta_forecasts(settings: Settings) -> EtaForecasts:
    """Returns forecasts that read profiles and link speeds once, and only if a long move runs.

    Without profiles, the forecast assumes that the current loads stay.

    Args:
        settings: the settings of the file, without the changes of the schedule.
    """

    @cache
    def read() -> tuple[Mapping[int, BrokerProfile], Mapping[int, float]]:
        try:
            with open_cluster(settings, "rheostat-eta") as client:
                return read_profiles(client, settings), read_link_speeds(client, settings)
        except CommandError:
            # The command itself reports a cluster that does not answer. An end at the current rate is better than none.
            return {}, {}

    inputs = ForecastInputs(lambda: read()[0], lambda broker: read()[1].get(broker), settings.tuner)
    return EtaForecasts(inputs, sides_per_call=None)
