"""The catalogue of the throttle controller's reasons, in the order in which the controller checks them.

``policy.py`` checks the cycle, ``replica_lists/list_rules.py`` the lists, ``side_rules.py`` with ``safety_rungs.py`` each throttle.
A reason that is checked in several places is listed at the first. "This side" is the leader or the follower throttle of one broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tuner.control.throttle.decision import Reason
from tuner.core.reason_text import ReasonText

NOTHING = "nothing"

# Checked in each cycle, before the throttles.
CYCLE_REASONS: Mapping[Reason, ReasonText] = MappingProxyType(
    {
        Reason.CLUSTER_NOT_SEEN: ReasonText(
            meaning="the cluster cannot be read",
            tuner="holds, stops a ramp, and ends the cycle",
            operator="run `rheostat doctor`; it names the listener or the right that is missing",
        ),
        Reason.CLEARED_BY_TOOL: ReasonText(
            meaning="another tool removed all rates of the tuner at once",
            tuner="gives these rates up, and sets new ones for the moves that still run",
            operator="while rheostat acts, run `kafka-reassign-partitions --verify` only with `--preserve-throttles`",
        ),
        Reason.LATE_PREDECESSOR_WRITE: ReasonText(
            meaning="a write of the previous tuner took effect only after this tuner had taken over",
            tuner="continues to manage the rate, and corrects it",
            operator=NOTHING,
        ),
        Reason.EXTERNAL_CHANGE: ReasonText(
            meaning="an operator or another tool changed the value",
            tuner="leaves the value alone for `tuner.external_change_hold_s`",
            operator="nothing if you changed it; otherwise find the other tool; `rheostat resume` hands the value back earlier",
        ),
        Reason.PAUSED: ReasonText(
            meaning="an operator ordered a pause",
            tuner="holds, and ends the cycle",
            operator="end the pause with `rheostat resume`",
        ),
        Reason.RELEASED: ReasonText(
            meaning="an operator ordered a release",
            tuner="restores the managed settings, then holds, and ends the cycle",
            operator="end the release with `rheostat resume`",
        ),
        Reason.MOVE_ENDED: ReasonText(
            meaning="all moves have ended",
            tuner="clears the lists, removes the rates or restores the earlier ones, and ends the cycle",
            operator=NOTHING,
        ),
        Reason.NO_LEADER: ReasonText(
            meaning="a moving partition has no leader",
            tuner="holds, and names the partition",
            operator="bring back a broker that has an in-sync replica of the partition",
        ),
        Reason.LIST_FULL: ReasonText(
            meaning="more replicas move than fit on the throttled-replica list of one topic",
            tuner="lists as many as fit; steps of plans wait for room, the rest of another tool's move runs without a throttle",
            operator="nothing for a plan of rheostat; with another tool, move fewer partitions at a time",
        ),
        Reason.MOVE_FOUND: ReasonText(
            meaning="a move needs a throttle, and its rate or an entry on a list is missing",
            tuner="sets the rate, then adds the replicas to the lists",
            operator=NOTHING,
        ),
        Reason.IN_SYNC: ReasonText(
            meaning="replicas on a list are in sync, or no longer move",
            tuner="removes those that it had put on the lists",
            operator=NOTHING,
        ),
    }
)

# Checked for each throttle while partitions move. The first reason that applies decides.
SIDE_REASONS: Mapping[Reason, ReasonText] = MappingProxyType(
    {
        Reason.BROKER_DOWN: ReasonText(
            meaning="the broker is down, or all destinations of its moves are down",
            tuner="holds, and stops a ramp",
            operator="bring the broker back, or cancel its moves",
        ),
        Reason.SETTINGS_UNREADABLE: ReasonText(
            meaning="the settings of the broker cannot be read",
            tuner="holds, and stops a ramp",
            operator="run `rheostat doctor`; most often the right DescribeConfigs on the cluster is missing",
        ),
        Reason.EXTERNALLY_OWNED: ReasonText(
            meaning="an operator or another tool changed the rate less than `tuner.external_change_hold_s` ago",
            tuner="holds",
            operator="wait, or hand the rate back to the tuner with `rheostat resume`",
        ),
        Reason.WINDOW_WARMUP: ReasonText(
            meaning="nothing was copied for a while, so Kafka would let the bytes of a whole quota window pass at once",
            tuner="raises the rate in steps while the window fills",
            operator=NOTHING,
        ),
        Reason.OVERRIDDEN: ReasonText(
            meaning="an operator ordered a rate for this throttle",
            tuner="sets the ordered rate and keeps it",
            operator="end the order early with `rheostat override --broker ID --clear`",
        ),
        Reason.PRESERVED: ReasonText(
            meaning="the rate was set before the move, and `tuner.existing_throttles` is `preserve`",
            tuner="holds",
            operator="set `tuner.existing_throttles: adopt` if the tuner should control it",
        ),
        Reason.PLAN_RATE: ReasonText(
            meaning="a plan of rheostat copies through this side, and the current rate differs from the plan's throttle",
            tuner="sets the plan's throttle; with an objective it only lowers a rate that is above it",
            operator=NOTHING,
        ),
        Reason.RESTORED: ReasonText(
            meaning="the cause of a temporary rate is over: an order has ended, or replicas are back in sync",
            tuner="restores the earlier rate, or sets the lowest that ends the move if that is higher",
            operator=NOTHING,
        ),
        Reason.AT_CEILING: ReasonText(
            meaning="the rate is at the ceiling, or above it because the ceiling was lowered",
            tuner="lowers a rate above the ceiling; otherwise holds",
            operator="raise `tuner.rate_bytes_per_s_max` if the move is too slow and clients have room",
        ),
        Reason.SIGNALS_MISSING: ReasonText(
            meaning="this side is not measured",
            tuner="holds, and stops a ramp",
            operator="check the collector and the stream: `rheostat signals` and SignalsStale in the runbook",
        ),
        Reason.SIGNALS_STALE: ReasonText(
            meaning="the newest measurement of this side is too old",
            tuner="holds, and stops a ramp",
            operator="check the collector and the stream: `rheostat signals` and SignalsStale in the runbook",
        ),
        Reason.STALE_DECAY: ReasonText(
            meaning="the tuner raised this rate, but has had no measurement for more than a minute; no objective is set",
            tuner="lowers the rate step by step, to the earlier rate or to the lowest that ends the move, whichever is higher",
            operator="check the collector and the stream: `rheostat signals` and SignalsStale in the runbook",
        ),
        Reason.SIGNALS_CONTRADICT: ReasonText(
            meaning="signals of this side contradict each other",
            tuner="holds, names these signals, and stops a ramp",
            operator="nothing in the first half minute of a move; after that check the metrics that the decision names",
        ),
        Reason.ISR_RECOVERY: ReasonText(
            meaning="partitions refuse writes, because replicas that copy through this side are out of the ISR",
            tuner="raises the rate to the ceiling until the replicas are back, and removes them from the leader's list",
            operator="see UnderMinIsrDuringMove in the runbook",
        ),
        Reason.NOT_THROTTLED: ReasonText(
            meaning="this side has no throttle, so the ceiling does not hold",
            tuner="holds, and says so",
            operator="set a throttle with the tool that started the move; or set `tuner.objective`, and the tuner adds a throttle",
        ),
        Reason.STALLED_UNTHROTTLED: ReasonText(
            meaning="the move has stalled, and this side has no throttle",
            tuner="holds, and says where to look",
            operator="see ThrottleSaturatedBySourceOrDisk in the runbook",
        ),
        Reason.INFEASIBLE: ReasonText(
            meaning="steady-state replication alone takes as much as the throttle and the ceiling allow, so the move cannot end",
            tuner="holds, and raises the alert ThrottleInfeasible",
            operator=(
                "raise `tuner.rate_bytes_per_s_max` above the rate that the decision names, or move fewer partitions at a time"
            ),
        ),
        Reason.RATE_IS_CHANGING: ReasonText(meaning="a ramp is in progress", tuner="holds", operator=NOTHING),
        Reason.WATCHING: ReasonText(
            meaning="the move has run too briefly at this rate to be judged; no objective is set",
            tuner="holds",
            operator=NOTHING,
        ),
        Reason.PROGRESSING: ReasonText(
            meaning="the move progresses; no objective is set", tuner="holds", operator=NOTHING
        ),
        Reason.STALLED_FETCHER_BOUND: ReasonText(
            meaning="the move has stalled, and its partitions share one fetcher thread",
            tuner="holds, and names the thread and a better number of fetchers",
            operator="see FetcherCollision in the runbook; `rheostat fetchers` shows the threads",
        ),
        Reason.STALLED_SOURCE_BOUND: ReasonText(
            meaning="the move has stalled, most likely because of its source broker",
            tuner=(
                "holds, names the broker, and gives the evidence: other moves from it stall too, or only its request handlers are "
                "busy"
            ),
            operator="see ThrottleSaturatedBySourceOrDisk in the runbook",
        ),
        Reason.STALLED_DESTINATION_BOUND: ReasonText(
            meaning="the move has stalled, most likely because of its destination broker",
            tuner=(
                "holds, names the broker, and gives the evidence: other moves onto it stall too, or only its request handlers are "
                "busy"
            ),
            operator="see ThrottleSaturatedBySourceOrDisk in the runbook",
        ),
        Reason.STALLED_REPLICA_DEAD: ReasonText(
            meaning="the move has stalled: its destination receives nothing, although its sources serve other brokers",
            tuner="holds, and names the broker",
            operator="look for a failed disk or a dead fetcher thread in the log of the destination, and restart that broker",
        ),
        Reason.STALLED_NOT_THROTTLE_BOUND: ReasonText(
            meaning="the move has stalled, and no throttle is the cause",
            tuner="holds, and says where to look",
            operator="see ThrottleSaturatedBySourceOrDisk in the runbook",
        ),
        Reason.WITHIN_DEADBAND: ReasonText(
            meaning="the rate that the move needs is hardly above the current rate; no objective is set",
            tuner="holds",
            operator="nothing; if the move stays stalled, see ReassignmentStalled in the runbook",
        ),
        Reason.RESCUE_NEEDS_MORE: ReasonText(
            meaning="after an earlier raise the throttle limits the move again; no objective is set",
            tuner="raises the rate",
            operator=NOTHING,
        ),
        Reason.STALLED_BELOW_STEADY_STATE: ReasonText(
            meaning="the move has stalled, because steady-state replication uses up the throttle; no objective is set",
            tuner="raises the rate",
            operator=NOTHING,
        ),
        Reason.STALLED_THROTTLE_BOUND: ReasonText(
            meaning="the move has stalled, and the throttle limits it; no objective is set",
            tuner="raises the rate",
            operator=NOTHING,
        ),
        Reason.LOAD_NOT_MEASURED: ReasonText(
            meaning="an objective is set, but the client traffic of the broker is not measured",
            tuner="raises no rate; after half a minute it lowers the rates that it manages step by step, down to the minimum rate",
            operator=(
                "make the collector report BytesInPerSec and BytesOutPerSec of the broker; `rheostat doctor` names what is missing"
            ),
        ),
        Reason.NO_HEADROOM: ReasonText(
            meaning="clients leave less bandwidth than steady-state replication needs",
            tuner="keeps the minimum rate",
            operator="see ThrottleWithoutHeadroom in the runbook",
        ),
        Reason.DEADLINE_NOT_MET: ReasonText(
            meaning="the move ends after `finish_at`, even with all bandwidth that clients and the ceiling leave",
            tuner="adjusts the rate as usual, and says how late the move ends and what to change",
            operator="raise the ceiling or the latency objective, or accept a later end",
        ),
        Reason.FOLLOWS_CLIENTS: ReasonText(
            meaning="an objective is set, and no other reason applies",
            tuner="adjusts the rate every second",
            operator=NOTHING,
        ),
    }
)

REASON_TEXTS: Mapping[Reason, ReasonText] = MappingProxyType({**CYCLE_REASONS, **SIDE_REASONS})
