"""The catalogue of the throttle controller's reasons, in the order in which the controller checks them.

``policy.py`` checks the cycle, ``replica_lists/list_rules.py`` the lists, ``side_rules.py`` with ``safety_rungs.py`` each throttle.
A reason that is checked in several places is listed at the first.
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
            "the cluster cannot be read",
            "holds, stops a ramp, and ends the cycle",
            "run `rheostat doctor`; it names the listener or the right that is missing",
        ),
        Reason.CLEARED_BY_TOOL: ReasonText(
            "another tool removed all rates of the tuner at once",
            "forgets them, and throttles again the moves that still run",
            "run `kafka-reassign-partitions --verify` only with `--preserve-throttles` while rheostat acts",
        ),
        Reason.LATE_PREDECESSOR_WRITE: ReasonText(
            "the current rate is the one that the previous tuner was about to write",
            "keeps the rate managed, and corrects it",
            NOTHING,
        ),
        Reason.EXTERNAL_CHANGE: ReasonText(
            "an operator or another tool changed the value",
            "relinquishes the value for `tuner.external_change_hold_s`",
            "nothing if you changed it; otherwise find the other tool; `rheostat resume` ends the hold early",
        ),
        Reason.PAUSED: ReasonText(
            "an operator ordered a pause", "holds, and ends the cycle", "end the pause with `rheostat resume`"
        ),
        Reason.RELEASED: ReasonText(
            "an operator ordered a release",
            "restores the managed settings, then holds, and ends the cycle",
            "end the release with `rheostat resume`",
        ),
        Reason.MOVE_ENDED: ReasonText(
            "nothing moves any more",
            "clears the lists, then removes or restores the rates, and ends the cycle",
            NOTHING,
        ),
        Reason.NO_LEADER: ReasonText(
            "a moving partition has no leader",
            "holds, and names the partition",
            "bring back a broker that has an in-sync replica of the partition",
        ),
        Reason.LIST_FULL: ReasonText(
            "more replicas move than fit on the throttled-replica list of one topic",
            "lists as many as fit, and says which wait",
            "nothing for a plan of rheostat; give another tool's reassignment in smaller parts",
        ),
        Reason.MOVE_FOUND: ReasonText(
            "a move that has to be throttled lacks a rate, or replicas on a list",
            "sets the rate, then adds the replicas to the lists",
            NOTHING,
        ),
        Reason.IN_SYNC: ReasonText(
            "listed replicas are in sync, or no longer move", "removes its own entries from the lists", NOTHING
        ),
    }
)

# Checked for each throttle while partitions move. The first reason that applies decides.
SIDE_REASONS: Mapping[Reason, ReasonText] = MappingProxyType(
    {
        Reason.BROKER_DOWN: ReasonText(
            "the broker is not alive, or all destinations of its moves are down",
            "holds, and stops a ramp",
            "bring the broker back, or cancel its moves",
        ),
        Reason.SETTINGS_UNREADABLE: ReasonText(
            "the settings of the broker cannot be read",
            "holds, and stops a ramp",
            "run `rheostat doctor`; most often the right DescribeConfigs on the cluster is missing",
        ),
        Reason.EXTERNALLY_OWNED: ReasonText(
            "another owner changed the value less than `tuner.external_change_hold_s` ago",
            "holds",
            "wait, or hand the value back to the tuner with `rheostat resume`",
        ),
        Reason.WINDOW_WARMUP: ReasonText(
            "the quota window is empty, so Kafka would let a whole window pass at once; without an objective this is "
            "checked before `overridden`, with one after `preserved`",
            "raises the rate in steps while the window fills",
            NOTHING,
        ),
        Reason.OVERRIDDEN: ReasonText(
            "an operator ordered a rate for this throttle",
            "sets the ordered rate and keeps it",
            "end the order early with `rheostat override --broker ID --clear`",
        ),
        Reason.PRESERVED: ReasonText(
            "the rate was set before the move, and `tuner.existing_throttles` is `preserve`",
            "holds",
            "set `tuner.existing_throttles: adopt` if the tuner should control it",
        ),
        Reason.PLAN_RATE: ReasonText(
            "a plan of rheostat copies through this side, and the current rate is not the plan's",
            "sets the rate of the plan; with an objective it only lowers to it",
            NOTHING,
        ),
        Reason.RESTORED: ReasonText(
            "an order has ended, or replicas are back in sync",
            "restores the earlier rate, but none that is too low to drain",
            NOTHING,
        ),
        Reason.AT_CEILING: ReasonText(
            "a managed rate is above a ceiling that was lowered, or is as high as the ceiling permits",
            "lowers a rate that is above the ceiling; otherwise holds",
            "raise `tuner.rate_bytes_per_s_max` if the move is too slow and clients have room",
        ),
        Reason.SIGNALS_MISSING: ReasonText(
            "there is no measurement of this side",
            "holds, and stops a ramp",
            "check the collector and the stream: `rheostat signals` and SignalsStale in the runbook",
        ),
        Reason.SIGNALS_STALE: ReasonText(
            "the newest measurement of this side is too old",
            "holds, and stops a ramp",
            "check the collector and the stream: `rheostat signals` and SignalsStale in the runbook",
        ),
        Reason.STALE_DECAY: ReasonText(
            "a side that the tuner raised has had no measurement for more than a minute; no objective is set",
            "lowers the rate step by step, to the earlier rate or to the smallest that drains",
            "check the collector and the stream: `rheostat signals` and SignalsStale in the runbook",
        ),
        Reason.SIGNALS_CONTRADICT: ReasonText(
            "the signals cannot all be true",
            "holds, says which signals contradict each other, and stops a ramp",
            "nothing in the first half minute of a move; after that check the metrics that the decision names",
        ),
        Reason.ISR_RECOVERY: ReasonText(
            "partitions refuse writes until replicas that copy through this side are back in the ISR",
            "opens the throttle to the ceiling and keeps it open, and removes those replicas from the leader's list",
            "see UnderMinIsrDuringMove in the runbook",
        ),
        Reason.NOT_THROTTLED: ReasonText(
            "this side has no throttle, so the ceiling does not hold",
            "holds, and says so",
            "set a throttle with the tool that started the move, or set `tuner.objective`, so that the tuner adds one",
        ),
        Reason.STALLED_UNTHROTTLED: ReasonText(
            "the move has stalled, and this side has no throttle",
            "holds, and says where to look",
            "see ThrottleSaturatedBySourceOrDisk in the runbook",
        ),
        Reason.INFEASIBLE: ReasonText(
            "neither the ceiling nor the throttle is above steady-state replication",
            "holds, and raises the alert ThrottleInfeasible",
            "raise `tuner.rate_bytes_per_s_max` above the rate that the decision names, or move fewer partitions at a time",
        ),
        Reason.RATE_IS_CHANGING: ReasonText("a ramp is in progress", "holds", NOTHING),
        Reason.WATCHING: ReasonText("it is too early to judge; no objective is set", "holds", NOTHING),
        Reason.PROGRESSING: ReasonText("the move progresses; no objective is set", "holds", NOTHING),
        Reason.STALLED_FETCHER_BOUND: ReasonText(
            "the move has stalled, and its partitions share one fetcher thread",
            "holds, and names the thread and a better number of fetchers",
            "see FetcherCollision in the runbook; `rheostat fetchers` shows the threads",
        ),
        Reason.STALLED_SOURCE_BOUND: ReasonText(
            "the move has stalled, most likely because of its source: other moves stall at the same end, or only the request "
            "handlers of that broker are busy",
            "holds, and names the broker and the evidence",
            "see ThrottleSaturatedBySourceOrDisk in the runbook",
        ),
        Reason.STALLED_DESTINATION_BOUND: ReasonText(
            "the move has stalled, most likely because of its destination: other moves stall at the same end, or only the request "
            "handlers of that broker are busy",
            "holds, and names the broker and the evidence",
            "see ThrottleSaturatedBySourceOrDisk in the runbook",
        ),
        Reason.STALLED_REPLICA_DEAD: ReasonText(
            "the move has stalled without a byte, while its sources feed other brokers",
            "holds, and names the broker",
            "look for a failed disk or a dead fetcher thread in the log of the destination, and restart that broker",
        ),
        Reason.STALLED_NOT_THROTTLE_BOUND: ReasonText(
            "the move has stalled for another cause than a throttle",
            "holds, and says where to look",
            "see ThrottleSaturatedBySourceOrDisk in the runbook",
        ),
        Reason.WITHIN_DEADBAND: ReasonText(
            "the rate is high enough; no objective is set",
            "holds",
            "nothing; if the move stays stalled, see ReassignmentStalled in the runbook",
        ),
        Reason.RESCUE_NEEDS_MORE: ReasonText(
            "after a rescue the throttle limits the move again; no objective is set", "raises the rate", NOTHING
        ),
        Reason.STALLED_BELOW_STEADY_STATE: ReasonText(
            "the move has stalled, and the throttle is not above steady-state replication; no objective is set",
            "raises the rate",
            NOTHING,
        ),
        Reason.STALLED_THROTTLE_BOUND: ReasonText(
            "the move has stalled, and the throttle limits it; no objective is set", "raises the rate", NOTHING
        ),
        Reason.LOAD_NOT_MEASURED: ReasonText(
            "an objective is set, but the clients' load of the broker is not measured",
            "never measured: keeps an external rate, and lowers a managed rate after half a minute; no longer measured: holds, "
            "then lowers to the minimum rate",
            "make the collector report BytesInPerSec and BytesOutPerSec of the broker; `rheostat doctor` names what is missing",
        ),
        Reason.NO_HEADROOM: ReasonText(
            "clients leave less than steady-state replication takes",
            "keeps the minimum rate",
            "see ThrottleWithoutHeadroom in the runbook",
        ),
        Reason.DEADLINE_NOT_MET: ReasonText(
            "with all that clients and the ceiling leave, the move ends after `finish_at`",
            "controls as usual, and says how late the move ends and what to change",
            "raise the ceiling or the objective, or accept a later end",
        ),
        Reason.FOLLOWS_CLIENTS: ReasonText(
            "an objective is set, and all is in order", "adjusts the rate every second", NOTHING
        ),
    }
)

REASON_TEXTS: Mapping[Reason, ReasonText] = MappingProxyType({**CYCLE_REASONS, **SIDE_REASONS})
