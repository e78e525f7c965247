"""The catalogue of the reasons of limits of copies between log directories."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tuner.control.log_dir.decision import LogDirReason
from tuner.core.reason_text import ReasonText

_KEEPS = "keeps the limit"
_RESTORES = "restores the earlier limit, or removes the setting if no limit was set"

LOG_DIR_REASON_TEXTS: Mapping[LogDirReason, ReasonText] = MappingProxyType(
    {
        LogDirReason.SETTINGS_UNREADABLE: ReasonText(
            cause="the tuner cannot read the log directories or the settings of the broker",
            effect=_KEEPS,
            advice="bring the broker back, or grant Describe and DescribeConfigs; `rheostat doctor` names the missing right",
        ),
        LogDirReason.EXTERNAL_CHANGE: ReasonText(
            cause="an operator or another tool changed a limit that the tuner had set",
            effect="leaves the limit alone for `tuner.external_change_hold_s`",
            advice="nothing; `rheostat resume` lets the tuner control the limit again at once",
        ),
        LogDirReason.PAUSED: ReasonText(
            cause="an operator ordered a pause", effect=_KEEPS, advice="end the pause with `rheostat resume`"
        ),
        LogDirReason.RELEASED: ReasonText(
            cause="an operator ordered a release", effect=_RESTORES, advice="end the release with `rheostat resume`"
        ),
        LogDirReason.NOT_CONFIGURED: ReasonText(
            cause="the latency objective was removed from the settings", effect=_RESTORES
        ),
        LogDirReason.COPIES_ENDED: ReasonText(cause="the copies between log directories have ended", effect=_RESTORES),
        LogDirReason.NO_OBJECTIVE: ReasonText(
            cause="there is no latency objective (`tuner.objective: off`)",
            effect="reports the copies, and changes nothing",
            advice="set `tuner.objective` if the tuner should set the limit",
        ),
        LogDirReason.EXTERNALLY_OWNED: ReasonText(
            cause="an operator or another tool changed this limit less than `tuner.external_change_hold_s` ago",
            effect="leaves the limit alone until this time has passed",
            advice="nothing; `rheostat resume` lets the tuner control the limit again at once",
        ),
        LogDirReason.PRESERVED: ReasonText(
            cause="the limit was set before the copies, and `tuner.existing_throttles` is `preserve`", effect=_KEEPS
        ),
        LogDirReason.NOT_THROTTLED: ReasonText(
            cause="the copies have no limit, and `tuner.unthrottled_moves` is `leave`", effect="sets no limit"
        ),
        LogDirReason.SIGNALS_STALE: ReasonText(
            cause="the broker has no signal, or its newest signal is older than 15 s",
            effect=(
                "keeps the limit; if the tuner has set the limit, lowers it step by step to the minimum after 30 s without a new "
                "signal"
            ),
            advice="check that the collector and the stream run",
        ),
        LogDirReason.LOAD_NOT_MEASURED: ReasonText(
            cause="the broker does not report its produce latency",
            effect=_KEEPS,
            advice=(
                "make the collector report the produce latency; `rheostat signals` shows which measurements are missing"
            ),
        ),
        LogDirReason.COPY_FOUND: ReasonText(
            cause="a broker copies partitions between its log directories without a limit",
            effect=(
                "sets a limit of half of the present copy rate, or the minimum if the produce latency is near the objective"
            ),
        ),
        LogDirReason.INFEASIBLE: ReasonText(
            cause=(
                "producers write to the copied partitions at least as many bytes/s as the ceiling allows for the copies"
            ),
            effect="keeps the limit at the ceiling; the copies do not end",
            advice="raise `tuner.rate_bytes_per_s_max`, or make the producers write less",
        ),
        LogDirReason.CLIENTS_WAIT: ReasonText(
            cause="the produce latency of the broker is above the objective",
            effect="lowers the limit by 30 %, at most every 15 s",
        ),
        LogDirReason.HANDLERS_BUSY: ReasonText(
            cause="the request handlers of the broker are idle for less than 30 % of the time",
            effect="lowers the limit by 30 %, at most once a minute",
        ),
        LogDirReason.AT_MINIMUM: ReasonText(
            cause=(
                "the produce latency is above the objective or the request handlers are busy, but the limit is already the "
                "lowest rate at which the copies end"
            ),
            effect=(
                "keeps the limit at 1.2 × the write rate of the copied partitions, or at `tuner.rate_bytes_per_s_min` if that "
                "is higher"
            ),
            advice="find out which other work loads the broker",
        ),
        LogDirReason.NEAR_OBJECTIVE: ReasonText(
            cause=(
                "the produce latency is above 60 % of the objective, or the request handlers are idle for less than 40 % of "
                "the time"
            ),
            effect=_KEEPS,
        ),
        LogDirReason.NOT_THROTTLE_LIMITED: ReasonText(
            cause="the copies use less than 85 % of the limit, because something else limits them, such as a disk",
            effect=_KEEPS,
        ),
        LogDirReason.SETTLING: ReasonText(cause="the effect of the last change is not measured yet", effect=_KEEPS),
        LogDirReason.CLIENTS_WELL: ReasonText(
            cause="the produce latency is below 60 % of the objective, and the copies use at least 85 % of the limit",
            effect=(
                "raises the limit by at most 25 %, or by at most 10 % if the latency has exceeded the objective before; the "
                "nearer the latency is to 60 % of the objective, the smaller the raise"
            ),
        ),
        LogDirReason.AT_CEILING: ReasonText(
            cause="the limit is at the ceiling",
            effect="keeps the limit at `tuner.rate_bytes_per_s_max`",
            advice="raise `tuner.rate_bytes_per_s_max` if the copies should run faster",
        ),
        LogDirReason.STALE_DECAY: ReasonText(
            cause="the newest signal of the broker is older than 30 s",
            effect="lowers the limit step by step, down to the minimum",
            advice="check that the collector and the stream run",
        ),
    }
)
