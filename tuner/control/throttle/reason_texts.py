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
            effect="changes nothing, stops a ramp in progress, and ends the cycle",
            advice="run `rheostat doctor`, which names the missing listener or right",
        ),
        Reason.SCHEDULE_ENDED: ReasonText(
            cause="a rule of `tuner.schedule` has ended",
            effect="from this cycle on uses the ceiling and the objective in force; the decision names both",
        ),
        Reason.SCHEDULE_BEGAN: ReasonText(
            cause="a rule of `tuner.schedule` has begun",
            effect="from this cycle on uses the ceiling and the objective of the rule; the decision names both",
            advice="preview the rules with `rheostat config schedule`; an override of an operator precedes them",
        ),
        Reason.CLEARED_BY_TOOL: ReasonText(
            cause="another tool removed all rates of the tuner at the same time, or the throttled-replica lists of a topic",
            effect="no longer restores these rates, and sets new rates and lists for the moves that still run",
            advice=(
                "while rheostat acts, run `kafka-reassign-partitions --verify` only with `--preserve-throttles`; if Strimzi's "
                "Topic Operator removes the lists, the decision names the setting that ends this"
            ),
        ),
        Reason.LATE_PREDECESSOR_WRITE: ReasonText(
            cause="a write of the previous tuner took effect only after this tuner had become active",
            effect="continues to manage the rate, and corrects the value",
        ),
        Reason.EXTERNAL_CHANGE: ReasonText(
            cause="an operator or another tool changed a rate that the tuner managed",
            effect="leaves the rate alone for `tuner.external_change_hold_s`",
            advice=(
                "nothing if you changed the rate; otherwise find the other tool; after `rheostat resume` the tuner controls the "
                "rate again at once"
            ),
        ),
        Reason.PAUSED: ReasonText(
            cause="an operator ordered a pause",
            effect="changes nothing, and ends the cycle",
            advice="end the pause with `rheostat resume`",
        ),
        Reason.RELEASED: ReasonText(
            cause="an operator ordered a release",
            effect="restores the managed settings, then changes nothing",
            advice="end the release with `rheostat resume`",
        ),
        Reason.MOVE_ENDED: ReasonText(
            cause="all moves have ended",
            effect="clears the throttled-replica lists, removes the rates or restores the earlier rates, and ends the cycle",
        ),
        Reason.QUOTA_WINDOW_UNSUPPORTED: ReasonText(
            cause="an objective is set, but `replication.quota.window.size.seconds` is not 1 on some brokers",
            effect="raises only the throttles of stalled moves, as without an objective",
            advice=(
                "set this setting to 1 in `server.properties` and restart the brokers; to change the length of the window, use "
                "`replication.quota.window.num`"
            ),
        ),
        Reason.NO_LEADER: ReasonText(
            cause="a moving partition has no leader",
            effect="changes nothing, and names the partition",
            advice="start a broker that has an in-sync replica of the partition",
        ),
        Reason.LIST_FULL: ReasonText(
            cause="more replicas move than fit on the throttled-replica list of one topic",
            effect=(
                "lists as many replicas as fit; steps of plans wait for room, but replicas that another tool moves run without a "
                "throttle"
            ),
            advice="nothing for a plan of rheostat; with another tool, move fewer partitions at a time",
        ),
        Reason.MOVE_FOUND: ReasonText(
            cause="a move needs a throttle, but its rate or an entry on a throttled-replica list is missing",
            effect="sets the rate, then adds the replicas to the throttled-replica lists",
        ),
        Reason.RECOVERY_THROTTLED: ReasonText(
            cause="replicas that left the ISR catch up, and `tuner.recovery` is `act`",
            effect="throttles them like replicas that move, except those of partitions below `min.insync.replicas`",
        ),
        Reason.RECOVERY_WATCHED: ReasonText(
            cause="replicas that left the ISR catch up, and `tuner.recovery` is `watch`",
            effect="writes nothing for them, and says what it would do",
            advice="to protect clients during a recovery, set `tuner.recovery: act`",
        ),
        Reason.RECOVERY_STUCK: ReasonText(
            cause="replicas of a living broker are out of sync and have received nothing for ten minutes",
            effect="takes them off its throttled-replica lists, and names the broker",
            advice="look for a failed disk or a dead fetcher thread in the log of the broker, and restart that broker",
        ),
        Reason.RECOVERY_FOUND: ReasonText(
            cause="replicas that catch up need a throttle, but its rate or an entry on a throttled-replica list is missing",
            effect="sets the rate, then adds the replicas to the throttled-replica lists",
        ),
        Reason.IN_SYNC: ReasonText(
            cause="replicas on a throttled-replica list are in sync, or no longer move",
            effect="removes the entries of these replicas from the list, if the tuner had added them",
        ),
    }
)

# Checked for each throttle while partitions move. The first reason that applies is used.
SIDE_REASONS: Mapping[Reason, ReasonText] = MappingProxyType(
    {
        Reason.BROKER_DOWN: ReasonText(
            cause="the broker is down, or all destinations of its moves are down",
            effect="keeps the rate, and stops a ramp in progress",
            advice="start the broker, or cancel its moves",
        ),
        Reason.SETTINGS_UNREADABLE: ReasonText(
            cause="the tuner cannot read the settings of the broker",
            effect="keeps the rate, and stops a ramp in progress",
            advice="run `rheostat doctor`; usually the right DescribeConfigs on the cluster is missing",
        ),
        Reason.EXTERNALLY_OWNED: ReasonText(
            cause="an operator or another tool changed the rate less than `tuner.external_change_hold_s` ago",
            effect="keeps the rate",
            advice="wait, or run `rheostat resume` to let the tuner control the rate again",
        ),
        Reason.WINDOW_WARMUP: ReasonText(
            cause="no bytes were copied for a while, so Kafka would let the bytes of a whole quota window pass at once",
            effect="raises the rate in steps while the window fills",
        ),
        Reason.OVERRIDDEN: ReasonText(
            cause="an operator ordered a rate for this throttle",
            effect="sets the ordered rate, and keeps this rate until the order ends",
            advice="end the order early with `rheostat override --broker ID --clear`",
        ),
        Reason.PRESERVED: ReasonText(
            cause="the rate was set before the move, and `tuner.existing_throttles` is `preserve`",
            effect="keeps the rate",
            advice="set `tuner.existing_throttles: adopt` if the tuner should control the rate",
        ),
        Reason.VETOED: ReasonText(
            cause="a check of `tuner.vetoes` vetoes, or has given no answer for too long",
            effect=(
                "does not raise the rate, and stops a raise in progress; with the effect `lower` it lowers the rate to "
                "`lower_to_bytes_per_s`, and restores the earlier rate afterwards"
            ),
            advice="the decision names the check and its answer; an override of an operator precedes the check",
        ),
        Reason.PLAN_RATE: ReasonText(
            cause="this throttle limits a plan of rheostat, and the current rate differs from the plan's throttle",
            effect="sets the plan's throttle; if an objective is set, it only lowers rates that are above the plan's throttle",
        ),
        Reason.RESTORED: ReasonText(
            cause="the cause of a temporary rate is over: an order has ended, or replicas are back in sync",
            effect="restores the earlier rate; if the move would never end at this rate, sets the lowest rate at which it ends",
        ),
        Reason.AT_CEILING: ReasonText(
            cause="the rate is at the ceiling, or above a ceiling that was lowered",
            effect="lowers a rate above the ceiling; otherwise keeps the rate",
            advice="raise `tuner.rate_bytes_per_s_max` if the move is too slow and clients leave bandwidth for a higher rate",
        ),
        Reason.SIGNALS_MISSING: ReasonText(
            cause="there are no measurements of this throttle",
            effect="keeps the rate, and stops a ramp in progress",
            advice=_CHECK_SIGNALS,
        ),
        Reason.SIGNALS_STALE: ReasonText(
            cause="the newest measurement of this throttle is too old",
            effect="keeps the rate, and stops a ramp in progress",
            advice=_CHECK_SIGNALS,
        ),
        Reason.STALE_DECAY: ReasonText(
            cause="the tuner raised this rate, but has had no measurement for more than a minute; the objective is off",
            effect=(
                "lowers the rate step by step, to the earlier rate or to the lowest rate at which the move ends, whichever is "
                "higher"
            ),
            advice=_CHECK_SIGNALS,
        ),
        Reason.SIGNALS_CONTRADICT: ReasonText(
            cause="the measurements of this throttle contradict each other",
            effect="keeps the rate, names the contradicting signals, and stops a ramp in progress",
            advice="nothing in the first half minute of a move; after that check the metrics that the decision names",
        ),
        Reason.ISR_RECOVERY: ReasonText(
            cause="partitions refuse writes, because replicas that this throttle limits are out of the ISR",
            effect=(
                "raises the rate to the ceiling until the replicas are back, and removes these replicas from the leader's "
                "throttled-replica list"
            ),
            advice="see UnderMinIsrDuringMove in the runbook",
        ),
        Reason.RECOVERY_AT_MIN_ISR: ReasonText(
            cause=(
                "an objective is set, and partitions with exactly `min.insync.replicas` replicas in sync recover through this side"
            ),
            effect="adjusts the rate every second, and keeps it above half of what the link and the ceiling allow",
        ),
        Reason.NOT_THROTTLED: ReasonText(
            cause="no throttle is set on this side, so the ceiling does not limit the move here",
            effect="changes nothing, and reports that the throttle is missing",
            advice="set a throttle with the tool that started the move; or set `tuner.objective`, and the tuner adds a throttle",
        ),
        Reason.STALLED_UNTHROTTLED: ReasonText(
            cause="the move has stalled, but no throttle is set on this side",
            effect="changes nothing, and says what to check",
            advice="see ThrottleSaturatedBySourceOrDisk in the runbook",
        ),
        Reason.INFEASIBLE: ReasonText(
            cause="steady-state replication alone needs as much as the throttle and the ceiling allow, so the move cannot end",
            effect="keeps the rate; the alert ThrottleInfeasible fires",
            advice=(
                "raise `tuner.rate_bytes_per_s_max` above the rate that the decision names, or move fewer partitions at a time"
            ),
        ),
        Reason.RATE_IS_CHANGING: ReasonText(cause="a ramp of this rate is in progress", effect="keeps the rate"),
        Reason.WATCHING: ReasonText(
            cause="the tuner has too few measurements at this rate to judge the move; the objective is off",
            effect="keeps the rate",
        ),
        Reason.PROGRESSING: ReasonText(cause="the move makes progress; the objective is off", effect="keeps the rate"),
        Reason.STALLED_REMOTE_STORAGE: ReasonText(
            cause=(
                "the move has stalled, because replicas of tiered topics cannot begin to copy: the destination first has to read "
                "the state of the remote log"
            ),
            effect="keeps the rate: a higher throttle would not help",
            advice="check that the destination reaches the remote storage; its log names the error",
        ),
        Reason.STALLED_FETCHER_BOUND: ReasonText(
            cause="the move has stalled, and its partitions share one fetcher thread",
            effect="keeps the rate, and names the thread and a better value of `num.replica.fetchers`",
            advice="see FetcherCollision in the runbook; `rheostat fetchers` shows the threads",
        ),
        Reason.STALLED_SOURCE_BOUND: ReasonText(
            cause="the move has stalled, most likely because of its source broker",
            effect=(
                "keeps the rate, and names the broker and the evidence: other moves from this broker stall too, or only this "
                "broker has busy request handlers"
            ),
            advice="see ThrottleSaturatedBySourceOrDisk in the runbook",
        ),
        Reason.STALLED_DESTINATION_BOUND: ReasonText(
            cause="the move has stalled, most likely because of its destination broker",
            effect=(
                "keeps the rate, and names the broker and the evidence: other moves onto this broker stall too, or only this "
                "broker has busy request handlers"
            ),
            advice="see ThrottleSaturatedBySourceOrDisk in the runbook",
        ),
        Reason.STALLED_REPLICA_DEAD: ReasonText(
            cause="the move has stalled: its destination receives nothing, although its sources serve other brokers",
            effect="keeps the rate, and names the broker",
            advice="look for a failed disk or a dead fetcher thread in the log of the destination, and restart that broker",
        ),
        Reason.STALLED_NOT_THROTTLE_BOUND: ReasonText(
            cause="the move has stalled, but no throttle is the cause",
            effect="keeps the rate, and says what to check",
            advice="see ThrottleSaturatedBySourceOrDisk in the runbook",
        ),
        Reason.WITHIN_DEADBAND: ReasonText(
            cause="the move needs a rate that is less than 10 % above the current rate; the objective is off",
            effect="keeps the rate",
            advice="nothing; if the move stays stalled, see ReassignmentStalled in the runbook",
        ),
        Reason.RESCUE_NEEDS_MORE: ReasonText(
            cause="after an earlier raise the throttle limits the move again; the objective is off",
            effect="raises the rate",
        ),
        Reason.STALLED_BELOW_STEADY_STATE: ReasonText(
            cause="the move has stalled, because steady-state replication uses up the throttle; the objective is off",
            effect="raises the rate",
        ),
        Reason.STALLED_THROTTLE_BOUND: ReasonText(
            cause="the move has stalled, and the throttle limits the move; the objective is off",
            effect="raises the rate",
        ),
        Reason.LOAD_NOT_MEASURED: ReasonText(
            cause="an objective is set, but the client traffic of the broker is not measured",
            effect="raises no rate; after half a minute it lowers its managed rates, step by step, to the minimum rate",
            advice=(
                "make the collector report BytesInPerSec and BytesOutPerSec of the broker; `rheostat doctor` names the missing "
                "metrics"
            ),
        ),
        Reason.NO_HEADROOM: ReasonText(
            cause="clients, or their latency, leave less bandwidth than steady-state replication needs",
            effect="sets the minimum rate",
            advice="see ThrottleWithoutHeadroom in the runbook",
        ),
        Reason.DEADLINE_NOT_MET: ReasonText(
            cause="the move will end after `finish_at`, even at the highest rate that the clients and the ceiling allow",
            effect="adjusts the rate as usual, and says how late the move ends and what to change",
            advice="raise the ceiling or the latency objective, or accept a later end",
        ),
        Reason.FOLLOWS_CLIENTS: ReasonText(
            cause="an objective is set, and no other reason applies",
            effect="adjusts the rate every second to the load and latency of the clients",
        ),
    }
)

REASON_TEXTS: Mapping[Reason, ReasonText] = MappingProxyType({**CYCLE_REASONS, **SIDE_REASONS})
