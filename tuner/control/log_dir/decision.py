"""Defines the decisions about copies between the log directories of a broker: action, reason for programs, and sentence."""

from __future__ import annotations

from enum import StrEnum

from tuner.core.value import value


class LogDirReason(StrEnum):
    """Why a decision was made: a word for programs, in the journal and the metrics."""

    # The state is unknown: hold.
    SETTINGS_UNREADABLE = "settings_unreadable"
    LOAD_NOT_MEASURED = "load_not_measured"
    SIGNALS_STALE = "signals_stale"
    # An operator ordered it, or the throttle is not the tuner's: hold.
    PAUSED = "paused"
    EXTERNALLY_OWNED = "externally_owned"
    PRESERVED = "preserved"
    NOT_THROTTLED = "not_throttled"
    NO_OBJECTIVE = "no_objective"
    # The rate is right: hold.
    NOT_THROTTLE_LIMITED = "not_throttle_limited"
    NEAR_OBJECTIVE = "near_objective"
    SETTLING = "settling"
    AT_CEILING = "at_ceiling"
    AT_MINIMUM = "at_minimum"
    INFEASIBLE = "infeasible"
    # Change the rate.
    COPY_FOUND = "copy_found"
    CLIENTS_WELL = "clients_well"
    CLIENTS_WAIT = "clients_wait"
    HANDLERS_BUSY = "handlers_busy"
    STALE_DECAY = "stale_decay"
    # Stop managing the rate.
    COPIES_ENDED = "copies_ended"
    RELEASED = "released"
    NOT_CONFIGURED = "not_configured"
    EXTERNAL_CHANGE = "external_change"


@value
class HoldLogDirRate:
    """Change nothing."""

    broker: int
    reason: LogDirReason
    text: str


@value
class SetLogDirRate:
    """Set the rate on the broker.

    Attributes:
        current_bytes_per_s: the rate in force; None: copies are not limited.
        is_set_on_broker: the current rate is set on the broker itself; False: the broker inherits it.
    """

    broker: int
    current_bytes_per_s: int | None
    setpoint_bytes_per_s: int
    reason: LogDirReason
    text: str
    is_set_on_broker: bool = True

    @property
    def found_bytes_per_s(self) -> int | None:
        """The rate that is set on the broker itself."""
        return self.current_bytes_per_s if self.is_set_on_broker else None

    @property
    def value_bytes_per_s(self) -> int:
        return self.setpoint_bytes_per_s


@value
class RestoreLogDirRate:
    """Restore the rate from before the tuner's first write. If ``value_bytes_per_s`` is None, remove the setting."""

    broker: int
    current_bytes_per_s: int | None
    value_bytes_per_s: int | None
    reason: LogDirReason
    text: str

    @property
    def found_bytes_per_s(self) -> int | None:
        """The rate that is set on the broker itself."""
        return self.current_bytes_per_s


@value
class RelinquishLogDirRate:
    """Stop managing the rate, because an operator or another tool has changed it."""

    broker: int
    managed_bytes_per_s: int
    current_bytes_per_s: int | None
    reason: LogDirReason
    text: str


LogDirWrite = SetLogDirRate | RestoreLogDirRate
LogDirDecision = HoldLogDirRate | SetLogDirRate | RestoreLogDirRate | RelinquishLogDirRate

_ACTIONS: dict[type[LogDirDecision], str] = {
    HoldLogDirRate: "hold_log_dir",
    SetLogDirRate: "set_log_dir",
    RestoreLogDirRate: "restore_log_dir",
    RelinquishLogDirRate: "relinquish_log_dir",
}


def log_dir_action(decision: LogDirDecision) -> str:
    """Returns the action as a word for programs."""
    return _ACTIONS[type(decision)]
