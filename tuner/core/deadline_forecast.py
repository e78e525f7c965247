"""The forecast of one side for objective mode ``deadline``: how much faster than on average it has to copy now."""

from __future__ import annotations

from tuner.core.value import value

_NOTABLE = 0.01  # A smaller difference is not worth a sentence.


@value
class DeadlineForecast:
    """The forecast of one side until the deadline (tuner/planning/deadline_forecast.py).

    Attributes:
        time_ratio: factor on the time that the deadline leaves: the side copies now as if it had only this share of the time. 1:
            each hour leaves room for the mean rate. 0: the forecast leaves too little room, even if the side uses all of it.
        has_profile: the load of the broker's clients is forecast. False: only the schedule changes, and the current load stays.
    """

    time_ratio: float
    has_profile: bool = True

    @property
    def text(self) -> str:
        """Returns the change by the forecast, as the end of a sentence."""
        source = "the forecast of the load" if self.has_profile else "the schedule (the broker has no usable profile)"
        if self.time_ratio <= 0.0:
            return (
                f"by {source}, too little bandwidth is left until finish_at, so this side may use all that is left now"
            )
        if self.time_ratio >= 1.0 - _NOTABLE:
            return f"by {source}, each hour until finish_at leaves enough bandwidth for this rate"
        return (
            f"by {source}, some hours until finish_at leave less bandwidth, so this side copies {1.0 / self.time_ratio:.2g} times "
            "as fast as with the present load"
        )
