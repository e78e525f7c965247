"""The catalogue of the throttle controller's reasons, in the order in which the controller checks them.

``policy.py`` checks the cycle, ``replica_lists/list_rules.py`` the lists, ``side_rules.py`` with ``safety_rungs.py`` each throttle.
A reason that is checked in several places is listed at the first. "This side" is the leader or the follower throttle of one broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tuner.control.throttle.decision import Reason
from tuner.core.reason_text import ReasonText

_CHECK_SIGNALS = "check the collector and the stream: `rheostat signals` and SignalsStale in the runbook"

# Checked in each cycle, before the throttles.
CYCLE_REASONS: Mapping[Reason, ReasonText] = MappingProxyType(
    {
        Reason.CLUSTER_NOT_SEEN: ReasonText(
            cause="the cluster cannot be read",
            effect="holds, stops a ramp, and ends the cycle",
            advice="run `rheostat doctor`; it names the listener or the right that is missing",
        ),
        Reason.CLEARED_BY_TOOL: ReasonText(
            cause="another tool removed all rates of the tuner at once",
            effect="gives these rates up, and sets new ones for the moves that still run",
            advice="while rheostat acts, run `kafka-reassign-partitions --verify` only with `--preserve-throttles`",
        ),
        Reason.LATE_PREDECESSOR_WRITE: ReasonText(
            cause="a write of the previous tuner took effect only after this tuner had taken over",
            effect="continues to manage the rate, and corrects the value",
        ),
        Reason.EXTERNAL_CHANGE: ReasonText(
            cause="an operator or another tool changed a rate that the tuner managed",
            effect="leaves the rate alone for `tuner.external_change_hold_s`",
            advice="nothing if you changed the rate; otherwise find the other tool; `rheostat resume` hands the rate back earlier",
        ),
        Reason.PAUSED: ReasonText(
            cause="an operator ordered a pause",
            effect="holds, and ends the cycle",
            advice="end the pause with `rheostat resume`",
        ),
        Reason.RELEASED: ReasonText(
            cause="an operator ordered a release",
            effect="restores the managed settings, then holds, and ends the cycle",
            advice="end the release with `rheostat resume`",
        ),
        Reason.MOVE_ENDED: ReasonText(
            cause="all moves have ended",
            effect="clears the throttled-replica lists, removes the rates or restores the earlier ones, and ends the cycle",
        ),
        Reason.QUOTA_WINDOW_UNSUPPORTED: ReasonText(
            cause="an objective is set, but `replication.quota.window.size.seconds` is not 1 on some brokers",
            effect="raises the throttles of stalled moves only, as without an objective",
            advice="set it to 1 in the brokers' files and restart them; `replication.quota.window.num` sets the window's length",
        ),
        Reason.NO_LEADER: ReasonText(
            cause="a moving partition has no leader",
            effect="holds, and names the partition",
            advice="bring back a broker that has an in-sync replica of the partition",
        ),
        Reason.LIST_FULL: ReasonText(
            cause="more replicas move than fit on the throttled-replica list of one topic",
            effect="lists as many as fit; steps of plans wait for room, the rest of another tool's move runs without a throttle",
            advice="nothing for a plan of rheostat; with another tool, move fewer partitions at a time",
        ),
        Reason.MOVE_FOUND: ReasonText(
            cause="a move needs a throttle, but its rate or an entry on a throttled-replica list is missing",
            effect="sets the rate, then adds the replicas to the throttled-replica lists",
        ),
        Reason.IN_SYNC: ReasonText(
            cause="replicas on a throttled-replica list are in sync, or no longer move",
            effect="removes the entries of these replicas that it had added to the list",
        ),
    }
)

# Checked for each throttle while partitions move. The first reason that applies decides.
SIDE_REASONS: Mapping[Reason, ReasonText] = MappingProxyType(
    {
        Reason.BROKER_DOWN: ReasonText(
            cause="the broker is down, or all destinations of its moves are down",
            effect="holds, and stops a ramp",
            advice="bring the broker back, or cancel the moves of this broker",
        ),
        Reason.SETTINGS_UNREADABLE: ReasonText(
            cause="the settings of the broker cannot be read",
            effect="holds, and stops a ramp",
            advice="run `rheostat doctor`; most often the right DescribeConfigs on the cluster is missing",
        ),
        Reason.EXTERNALLY_OWNED: ReasonText(
            cause="an operator or another tool changed the rate less than `tuner.external_change_hold_s` ago",
            effect="holds",
            advice="wait, or hand the rate back to the tuner with `rheostat resume`",
        ),
        Reason.WINDOW_WARMUP: ReasonText(
            cause="nothing was copied for a while, so Kafka would let the bytes of a whole quota window pass at once",
            effect="raises the rate in steps while the window fills",
        ),
        Reason.OVERRIDDEN: ReasonText(
            cause="an operator ordered a rate for this throttle",
            effect="sets the ordered rate, and keeps this rate until the order ends",
            advice="end the order early with `rheostat override --broker ID --clear`",
        ),
        Reason.PRESERVED: ReasonText(
            cause="the rate was set before the move, and `tuner.existing_throttles` is `preserve`",
            effect="holds",
            advice="set `tuner.existing_throttles: adopt` if the tuner should control the rate",
        ),
        Reason.PLAN_RATE: ReasonText(
            cause="a plan of rheostat copies through this side, and the current rate differs from the plan's throttle",
            effect="sets the plan's throttle; with an objective it only lowers a rate above the plan's throttle",
        ),
        Reason.RESTORED: ReasonText(
            cause="the cause of a temporary rate is over: an order has ended, or replicas are back in sync",
            effect="restores the earlier rate, or sets the lowest that ends the move if that is higher",
        ),
        Reason.AT_CEILING: ReasonText(
            cause="the rate is at the ceiling, or above a ceiling that was lowered",
            effect="lowers a rate above the ceiling; otherwise holds",
            advice="raise `tuner.rate_bytes_per_s_max` if the move is too slow and clients leave bandwidth for a higher rate",
        ),
        Reason.SIGNALS_MISSING: ReasonText(
            cause="this side is not measured",
            effect="holds, and stops a ramp",
            advice=_CHECK_SIGNALS,
        ),
        Reason.SIGNALS_STALE: ReasonText(
            cause="the newest measurement of this side is too old",
            effect="holds, and stops a ramp",
            advice=_CHECK_SIGNALS,
        ),
        Reason.STALE_DECAY: ReasonText(
            cause="the tuner raised this rate, but has had no measurement for more than a minute; no objective is set",
            effect="lowers the rate step by step, to the earlier rate or to the lowest that ends the move, whichever is higher",
            advice=_CHECK_SIGNALS,
        ),
        Reason.SIGNALS_CONTRADICT: ReasonText(
            cause="signals of this side contradict each other",
            effect="holds, names the contradicting signals, and stops a ramp",
            advice="nothing in the first half minute of a move; after that check the metrics that the decision names",
        ),
        Reason.ISR_RECOVERY: ReasonText(
            cause="partitions refuse writes, because replicas that copy through this side are out of the ISR",
            effect=(
                "raises the rate to the ceiling until the replicas are back, and removes these replicas from the leader's "
                "throttled-replica list"
            ),
            advice="see UnderMinIsrDuringMove in the runbook",
        ),
        Reason.NOT_THROTTLED: ReasonText(
            cause="this side has no throttle, so the ceiling does not limit the move here",
            effect="holds, and reports that the throttle is missing",
            advice="set a throttle with the tool that started the move; or set `tuner.objective`, and the tuner adds a throttle",
        ),
        Reason.STALLED_UNTHROTTLED: ReasonText(
            cause="the move has stalled, and this side has no throttle",
            effect="holds, and says where to look",
            advice="see ThrottleSaturatedBySourceOrDisk in the runbook",
        ),
        Reason.INFEASIBLE: ReasonText(
            cause="steady-state replication alone takes as much as the throttle and the ceiling allow, so the move cannot end",
            effect="holds, and raises the alert ThrottleInfeasible",
            advice=(
                "raise `tuner.rate_bytes_per_s_max` above the rate that the decision names, or move fewer partitions at a time"
            ),
        ),
        Reason.RATE_IS_CHANGING: ReasonText(cause="a ramp of this rate is in progress", effect="holds"),
        Reason.WATCHING: ReasonText(
            cause="the move has run too briefly at this rate to be judged; no objective is set", effect="holds"
        ),
        Reason.PROGRESSING: ReasonText(cause="the move progresses; no objective is set", effect="holds"),
        Reason.STALLED_FETCHER_BOUND: ReasonText(
            cause="the move has stalled, and its partitions share one fetcher thread",
            effect="holds, and names the thread and a better number of fetchers",
            advice="see FetcherCollision in the runbook; `rheostat fetchers` shows the threads",
        ),
        Reason.STALLED_SOURCE_BOUND: ReasonText(
            cause="the move has stalled, most likely because of its source broker",
            effect=(
                "holds, names the broker, and gives the evidence: other moves from this broker stall too, or only this broker "
                "has busy request handlers"
            ),
            advice="see ThrottleSaturatedBySourceOrDisk in the runbook",
        ),
        Reason.STALLED_DESTINATION_BOUND: ReasonText(
            cause="the move has stalled, most likely because of its destination broker",
            effect=(
                "holds, names the broker, and gives the evidence: other moves onto this broker stall too, or only this broker "
                "has busy request handlers"
            ),
            advice="see ThrottleSaturatedBySourceOrDisk in the runbook",
        ),
        Reason.STALLED_REPLICA_DEAD: ReasonText(
            cause="the move has stalled: its destination receives nothing, although its sources serve other brokers",
            effect="holds, and names the broker",
            advice="look for a failed disk or a dead fetcher thread in the log of the destination, and restart that broker",
        ),
        Reason.STALLED_NOT_THROTTLE_BOUND: ReasonText(
            cause="the move has stalled, and no throttle is the cause",
            effect="holds, and says where to look",
            advice="see ThrottleSaturatedBySourceOrDisk in the runbook",
        ),
        Reason.WITHIN_DEADBAND: ReasonText(
            cause="the rate that the move needs is hardly above the current rate; no objective is set",
            effect="holds",
            advice="nothing; if the move stays stalled, see ReassignmentStalled in the runbook",
        ),
        Reason.RESCUE_NEEDS_MORE: ReasonText(
            cause="after an earlier raise the throttle limits the move again; no objective is set",
            effect="raises the rate",
        ),
        Reason.STALLED_BELOW_STEADY_STATE: ReasonText(
            cause="the move has stalled, because steady-state replication uses up the throttle; no objective is set",
            effect="raises the rate",
        ),
        Reason.STALLED_THROTTLE_BOUND: ReasonText(
            cause="the move has stalled, and the throttle limits the move; no objective is set",
            effect="raises the rate",
        ),
        Reason.LOAD_NOT_MEASURED: ReasonText(
            cause="an objective is set, but the client traffic of the broker is not measured",
            effect="raises no rate; after half a minute it lowers the rates that it manages step by step, down to the minimum rate",
            advice=(
                "make the collector report BytesInPerSec and BytesOutPerSec of the broker; `rheostat doctor` names what is missing"
            ),
        ),
        Reason.NO_HEADROOM: ReasonText(
            cause="clients leave less bandwidth than steady-state replication needs",
            effect="keeps the minimum rate",
            advice="see ThrottleWithoutHeadroom in the runbook",
        ),
        Reason.DEADLINE_NOT_MET: ReasonText(
            cause="the move ends after `finish_at`, even with all bandwidth that clients and the ceiling leave",
            effect="adjusts the rate as usual, and says how late the move ends and what to change",
            advice="raise the ceiling or the latency objective, or accept a later end",
        ),
        Reason.FOLLOWS_CLIENTS: ReasonText(
            cause="an objective is set, and no other reason applies",
            effect="adjusts the rate every second",
        ),
    }
)

REASON_TEXTS: Mapping[Reason, ReasonText] = MappingProxyType({**CYCLE_REASONS, **SIDE_REASONS})
