"""The catalogue of the reasons of limits of copies between log directories."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tuner.control.log_dir.decision import LogDirReason
from tuner.core.reason_text import ReasonText

_KEEPS = "keeps the limit"
_RESTORES = "restores the limit that was set before, or removes the setting"

LOG_DIR_REASON_TEXTS: Mapping[LogDirReason, ReasonText] = MappingProxyType(
    {
        LogDirReason.SETTINGS_UNREADABLE: ReasonText(
            cause="the log directories or the settings of the broker cannot be read",
            effect=_KEEPS,
            advice="bring the broker back, or grant Describe and DescribeConfigs; `rheostat doctor` names the missing right",
        ),
        LogDirReason.EXTERNAL_CHANGE: ReasonText(
            cause="an operator or another tool changed a limit that the tuner had set",
            effect="leaves the limit alone for `tuner.external_change_hold_s`",
            advice="nothing; `rheostat resume` ends the hold at once",
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
            cause="no latency objective is set",
            effect="reports the copies and changes nothing",
            advice="set `tuner.objective` if the tuner should set the limit",
        ),
        LogDirReason.EXTERNALLY_OWNED: ReasonText(
            cause="an operator or another tool set this limit after the tuner",
            effect="leaves the limit alone until the hold ends",
            advice="nothing; `rheostat resume` ends the hold at once",
        ),
        LogDirReason.PRESERVED: ReasonText(
            cause="the limit was set before, and `tuner.existing_throttles` is `preserve`", effect=_KEEPS
        ),
        LogDirReason.NOT_THROTTLED: ReasonText(
            cause="the copies have no limit, and `tuner.unthrottled_moves` is `leave`", effect="sets no limit"
        ),
        LogDirReason.SIGNALS_STALE: ReasonText(
            cause="the broker has no signal, or the newest one is older than 15 s",
            effect="keeps the limit; after 30 s lowers it step by step, down to the minimum",
            advice="check that the collector and the stream run",
        ),
        LogDirReason.LOAD_NOT_MEASURED: ReasonText(
            cause="the broker's produce latency is not reported",
            effect=_KEEPS,
            advice="make the collector report the produce latency; `rheostat signals` shows what is missing",
        ),
        LogDirReason.COPY_FOUND: ReasonText(
            cause="a broker copies partitions between its log directories without a limit",
            effect="sets a limit: half of the traffic, or the minimum if clients wait",
        ),
        LogDirReason.INFEASIBLE: ReasonText(
            cause="producers write to the copied partitions at least as fast as the ceiling allows the copies",
            effect="keeps the limit at the ceiling; the copies never end",
            advice="raise `tuner.rate_bytes_per_s_max`, or reduce the producers' write rate",
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
            cause="clients wait, and the limit is the lowest rate at which the copies end",
            effect="keeps the limit at 1.2 × the write rate of the partitions, at least `tuner.rate_bytes_per_s_min`",
            advice="find out what else loads the broker",
        ),
        LogDirReason.NEAR_OBJECTIVE: ReasonText(
            cause="the produce latency is near its objective, or the request handlers are idle for less than 40 % of the time",
            effect=_KEEPS,
        ),
        LogDirReason.NOT_THROTTLE_LIMITED: ReasonText(
            cause="the copies use less than 85 % of the limit: something else limits them, such as a disk",
            effect=_KEEPS,
        ),
        LogDirReason.SETTLING: ReasonText(cause="the effect of the last change is not measured yet", effect=_KEEPS),
        LogDirReason.CLIENTS_WELL: ReasonText(
            cause="the produce latency is well below the objective, and the copies use the whole limit",
            effect=(
                "raises the limit by up to 25 %, or up to 10 % once clients have waited; the nearer the latency is to its "
                "aim, the smaller the raise"
            ),
        ),
        LogDirReason.AT_CEILING: ReasonText(
            cause="the limit is at the ceiling",
            effect="keeps the limit at `tuner.rate_bytes_per_s_max`",
            advice="raise `tuner.rate_bytes_per_s_max` if the copies should run faster",
        ),
        LogDirReason.STALE_DECAY: ReasonText(
            cause="the newest signal is older than 30 s",
            effect="lowers the limit step by step, down to the minimum",
            advice="check that the collector and the stream run",
        ),
    }
)
