"""The catalogue of the throttle controller's reasons, in the order in which the controller checks them.

``policy.py`` checks the cycle, ``replica_lists/list_rules.py`` the lists, ``side_rules.py`` with ``safety_rungs.py`` each throttle.
A reason that is checked in several places is listed at the first. "This side" is the leader or the follower throttle of one broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tuner.control.throttle.decision import Reason
from tuner.core.reason_text import ReasonText

_CHECK_SIGNALS = "check that the collector and the stream run; see `rheostat signals`, and SignalsStale in the runbook"

# Checked in each cycle, before the throttles.
CYCLE_REASONS: Mapping[Reason, ReasonText] = MappingProxyType(
    {
        Reason.CLUSTER_NOT_SEEN: ReasonText(
            cause="the tuner cannot read the cluster",
            effect="changes nothing, stops a ramp in progress, and ends the cycle",
            advice="run `rheostat doctor`, which names the missing listener or right",
        ),
        Reason.SCHEDULE_ENDED: ReasonText(
            cause="a rule of `tuner.schedule` has ended",
            effect=(
                "from this cycle on uses the ceiling and the objective that apply without this rule; the decision names both"
            ),
        ),
        Reason.SCHEDULE_BEGAN: ReasonText(
            cause="a rule of `tuner.schedule` has begun",
            effect="from this cycle on uses the ceiling and the objective of the rule; the decision names both",
            advice=(
                "preview the rules with `rheostat config schedule`; an operator's override has precedence over the rules"
            ),
        ),
        Reason.CLEARED_BY_TOOL: ReasonText(
            cause=(
                "another tool removed all rates that the tuner had set, all at the same time; or it removed the "
                "throttled-replica lists of a topic"
            ),
            effect="does not restore the removed settings, but sets new rates and lists for the moves that still run",
            advice=(
                "while rheostat acts, run `kafka-reassign-partitions --verify` only with `--preserve-throttles`, because it "
                "otherwise removes all rates; if Strimzi's Topic Operator removes the lists, the decision names the Strimzi "
                "setting that prevents this"
            ),
        ),
        Reason.LATE_PREDECESSOR_WRITE: ReasonText(
            cause=(
                "the previous tuner had sent a write, and this write took effect only after the present tuner had become "
                "active"
            ),
            effect="continues to manage the rate, and replaces the late value",
        ),
        Reason.EXTERNAL_CHANGE: ReasonText(
            cause="an operator or another tool changed a rate that the tuner managed",
            effect="leaves the rate alone for `tuner.external_change_hold_s`",
            advice=(
                "nothing if you changed the rate; otherwise find the other tool; `rheostat resume` lets the tuner control the"
                " rate again at once"
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
            effect=(
                "removes its entries from the throttled-replica lists, removes its rates or restores the earlier rates, and "
                "ends the cycle"
            ),
        ),
        Reason.QUOTA_WINDOW_UNSUPPORTED: ReasonText(
            cause=(
                "there is an objective, but `replication.quota.window.size.seconds` is not 1 on some brokers, and the control law "
                "supports only 1"
            ),
            effect="works as without an objective: it raises only the throttles of stalled moves",
            advice=(
                "set `replication.quota.window.size.seconds` to 1 in `server.properties` and restart the brokers; to change "
                "the length of the window, use `replication.quota.window.num`"
            ),
        ),
        Reason.NO_LEADER: ReasonText(
            cause="a moving partition has no leader",
            effect="changes nothing for this partition, and names the partition",
            advice="start a broker that has an in-sync replica of the partition",
        ),
        Reason.LIST_FULL: ReasonText(
            cause=(
                "more replicas of one topic move than fit on the topic's throttled-replica list, whose length Kafka limits"
            ),
            effect=(
                "lists as many replicas as fit; a step of a plan that does not fit waits until entries leave the list; replicas "
                "that another tool moves and that do not fit are copied without a throttle"
            ),
            advice=(
                "nothing if a plan of rheostat moves the partitions; if another tool moves them, move fewer partitions at a "
                "time"
            ),
        ),
        Reason.MOVE_FOUND: ReasonText(
            cause="a move needs a throttle, but the rate or an entry on a throttled-replica list is not set",
            effect="sets the rate, then adds the replicas to the throttled-replica lists",
        ),
        Reason.RECOVERY_THROTTLED: ReasonText(
            cause="replicas that left the ISR are catching up, and `tuner.recovery` is `act`",
            effect=(
                "throttles these replicas like replicas that move, except replicas of partitions below `min.insync.replicas`"
            ),
        ),
        Reason.RECOVERY_WATCHED: ReasonText(
            cause="replicas that left the ISR are catching up, and `tuner.recovery` is `watch`",
            effect="changes nothing, and reports what it would do with `tuner.recovery: act`",
            advice="to protect clients during a recovery, set `tuner.recovery: act`",
        ),
        Reason.RECOVERY_STUCK: ReasonText(
            cause="replicas of a living broker are out of sync and have received nothing for ten minutes",
            effect="removes these replicas from the throttled-replica lists, and names the broker",
            advice="look for a failed disk or a dead fetcher thread in the log of the broker, and restart that broker",
        ),
        Reason.RECOVERY_FOUND: ReasonText(
            cause=(
                "replicas that are catching up need a throttle, but the rate or an entry on a throttled-replica list is not "
                "set"
            ),
            effect="sets the rate, then adds the replicas to the throttled-replica lists",
        ),
        Reason.IN_SYNC: ReasonText(
            cause="replicas on a throttled-replica list are in sync again, or no longer move",
            effect="removes the entries that the tuner had added for these replicas",
        ),
    }
)

# Checked for each throttle while partitions move. The first reason that applies is used.
SIDE_REASONS: Mapping[Reason, ReasonText] = MappingProxyType(
    {
        Reason.BROKER_DOWN: ReasonText(
            cause="the broker is down, or all brokers that copy moving partitions from it are down",
            effect="keeps the rate, and stops a ramp in progress",
            advice="start the broker that is down, or cancel its moves",
        ),
        Reason.SETTINGS_UNREADABLE: ReasonText(
            cause="the tuner cannot read the settings of the broker",
            effect="keeps the rate, and stops a ramp in progress",
            advice="run `rheostat doctor`, which names the missing right: usually DescribeConfigs on the cluster",
        ),
        Reason.EXTERNALLY_OWNED: ReasonText(
            cause="an operator or another tool changed the rate less than `tuner.external_change_hold_s` ago",
            effect="keeps the rate",
            advice="wait, or run `rheostat resume` to let the tuner control the rate again",
        ),
        Reason.WINDOW_WARMUP: ReasonText(
            cause=(
                "no bytes passed this throttle for a while, so Kafka's quota window is empty, and Kafka would let the bytes "
                "of a whole window pass at once"
            ),
            effect="starts with a low rate, and raises it in steps while the window fills",
        ),
        Reason.OVERRIDDEN: ReasonText(
            cause="an operator ordered a rate for this throttle (an override)",
            effect="sets the ordered rate, and keeps it until the order ends",
            advice="end the order early with `rheostat override --broker ID --clear`",
        ),
        Reason.PRESERVED: ReasonText(
            cause="the rate was set before the move, and `tuner.existing_throttles` is `preserve`",
            effect="keeps the rate",
            advice="set `tuner.existing_throttles: adopt` if the tuner should control the rate",
        ),
        Reason.VETOED: ReasonText(
            cause="an external check (setting `tuner.vetoes`) forbids a higher rate, or has given no valid answer for a while",
            effect=(
                "does not raise the rate, and stops a raise in progress; if the setting `effect` of the check is `lower`, also "
                "lowers the rate to the check's setting `lower_to_bytes_per_s`, and restores the earlier rate after the veto"
            ),
            advice="see the check and its answer in the decision; an operator's override has precedence over the check",
        ),
        Reason.PLAN_RATE: ReasonText(
            cause=(
                "a plan of rheostat copies through this throttle, and the current rate differs from the throttle that the "
                "plan orders"
            ),
            effect="sets the plan's throttle; with an objective, only lowers a rate that is above the plan's throttle",
        ),
        Reason.RESTORED: ReasonText(
            cause="a temporary rate is no longer needed: an order or a veto has ended, or replicas are back in sync",
            effect=(
                "restores the earlier rate; if the move would not end at the earlier rate, sets the lowest rate at which the "
                "move ends"
            ),
        ),
        Reason.AT_CEILING: ReasonText(
            cause="the rate is at the ceiling, or it is above the ceiling because an operator lowered the ceiling",
            effect="lowers a rate that is above the ceiling; otherwise keeps the rate",
            advice="if the move is too slow and clients do not need the bandwidth, raise `tuner.rate_bytes_per_s_max`",
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
            cause=(
                "there is no objective; the tuner has raised this rate, but has had no measurement for more than a minute"
            ),
            effect=(
                "lowers the rate step by step, down to the earlier rate or to the lowest rate at which the move ends, "
                "whichever is higher"
            ),
            advice=_CHECK_SIGNALS,
        ),
        Reason.SIGNALS_CONTRADICT: ReasonText(
            cause="the measurements of this throttle contradict each other",
            effect="keeps the rate, names the contradicting signals, and stops a ramp in progress",
            advice="in the first half minute of a move nothing; later check the metrics that the decision names",
        ),
        Reason.ISR_RECOVERY: ReasonText(
            cause="partitions refuse writes, because replicas that this throttle limits are out of the ISR",
            effect=(
                "raises the rate to the ceiling until the replicas are back in the ISR; if the tuner had put these replicas "
                "on the throttled-replica list, removes them from the list"
            ),
            advice="see UnderMinIsrDuringMove in the runbook",
        ),
        Reason.RECOVERY_AT_MIN_ISR: ReasonText(
            cause=(
                "there is an objective, and the replicas that catch up through this throttle belong to partitions with exactly "
                "`min.insync.replicas` replicas in sync"
            ),
            effect=(
                "adjusts the rate every second, but keeps it at or above half of the speed of the network link, or half of the "
                "ceiling if the ceiling is lower"
            ),
        ),
        Reason.NOT_THROTTLED: ReasonText(
            cause="this throttle is not set, so the ceiling does not limit the move on this side",
            effect="changes nothing, and reports that the throttle is missing",
            advice="set a throttle with the tool that started the move; or set `tuner.objective`, and the tuner adds a throttle",
        ),
        Reason.STALLED_UNTHROTTLED: ReasonText(
            cause="the move has stalled, but this throttle is not set, so this throttle is not the cause",
            effect="changes nothing, and says what to check",
            advice="see ThrottleSaturatedBySourceOrDisk in the runbook",
        ),
        Reason.INFEASIBLE: ReasonText(
            cause=(
                "steady-state replication alone uses all that the throttle and the ceiling allow, so the move cannot end"
            ),
            effect="keeps the rate; the alert ThrottleInfeasible fires",
            advice=(
                "raise `tuner.rate_bytes_per_s_max` above the rate that the decision names, or move fewer partitions at a time"
            ),
        ),
        Reason.RATE_IS_CHANGING: ReasonText(cause="a ramp of this rate is in progress", effect="keeps the rate"),
        Reason.WATCHING: ReasonText(
            cause="there is no objective, and the tuner has too few measurements at this rate to judge the move",
            effect="keeps the rate",
        ),
        Reason.PROGRESSING: ReasonText(
            cause="there is no objective, and the move makes progress", effect="keeps the rate"
        ),
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
            effect=(
                "keeps the rate, and names the thread and the value of `num.replica.fetchers` that would spread the "
                "partitions better"
            ),
            advice="see FetcherCollision in the runbook; `rheostat fetchers` shows the threads",
        ),
        Reason.STALLED_SOURCE_BOUND: ReasonText(
            cause="the move has stalled, most likely because of its source broker",
            effect=(
                "keeps the rate, and names the source and the evidence: other moves from this broker have stalled too, or "
                "this broker is the only one with busy request handlers"
            ),
            advice="see ThrottleSaturatedBySourceOrDisk in the runbook",
        ),
        Reason.STALLED_DESTINATION_BOUND: ReasonText(
            cause="the move has stalled, most likely because of its destination broker",
            effect=(
                "keeps the rate, and names the destination and the evidence: other moves onto this broker have stalled too, "
                "or this broker is the only one with busy request handlers"
            ),
            advice="see ThrottleSaturatedBySourceOrDisk in the runbook",
        ),
        Reason.STALLED_REPLICA_DEAD: ReasonText(
            cause=(
                "the move has stalled: the destination receives nothing from its sources, although these sources serve other "
                "brokers"
            ),
            effect="keeps the rate, and names the broker",
            advice="look for a failed disk or a dead fetcher thread in the log of the destination, and restart that broker",
        ),
        Reason.STALLED_NOT_THROTTLE_BOUND: ReasonText(
            cause="the move has stalled, no throttle is the cause, and the cause is not known",
            effect="keeps the rate, and says what to check",
            advice="see ThrottleSaturatedBySourceOrDisk in the runbook",
        ),
        Reason.WITHIN_DEADBAND: ReasonText(
            cause=(
                "there is no objective; the move has stalled, but the rate that it needs is less than 10 % above the current "
                "rate"
            ),
            effect="keeps the rate",
            advice="nothing; if the move stays stalled, see ReassignmentStalled in the runbook",
        ),
        Reason.RESCUE_NEEDS_MORE: ReasonText(
            cause="there is no objective; the tuner has raised the rate before, and the throttle limits the move again",
            effect="raises the rate once more",
        ),
        Reason.STALLED_BELOW_STEADY_STATE: ReasonText(
            cause="there is no objective; the move has stalled, because steady-state replication uses up the throttle",
            effect="raises the rate to what the move needs, at most to the ceiling",
        ),
        Reason.STALLED_THROTTLE_BOUND: ReasonText(
            cause=(
                "there is no objective; the move has stalled because of this throttle, or this throttle would be the next to "
                "limit the move"
            ),
            effect="raises the rate to what the move needs, at most to the ceiling",
        ),
        Reason.LOAD_NOT_MEASURED: ReasonText(
            cause="there is an objective, but the client traffic of the broker is not measured",
            effect=(
                "raises no rate; after half a minute lowers the rates that the tuner has set, step by step, to the minimum "
                "rate"
            ),
            advice=(
                "make the collector report BytesInPerSec and BytesOutPerSec of the broker; `rheostat doctor` names the missing "
                "metrics"
            ),
        ),
        Reason.NO_HEADROOM: ReasonText(
            cause=(
                "clients leave less bandwidth than steady-state replication needs, or the latency of the clients permits no "
                "higher rate"
            ),
            effect="sets the minimum rate",
            advice="see ThrottleWithoutHeadroom in the runbook",
        ),
        Reason.DEADLINE_NOT_MET: ReasonText(
            cause=(
                "even at the highest rate that clients and the ceiling allow, the move will end after the deadline "
                "(`tuner.objective.finish_at`)"
            ),
            effect="adjusts the rate every second as usual, and says how late the move will end and what you can change",
            advice="raise the ceiling or the latency objective, or accept a later end",
        ),
        Reason.FOLLOWS_CLIENTS: ReasonText(
            cause="there is an objective, and no other reason applies",
            effect="adjusts the rate every second to the load and latency of the clients",
        ),
    }
)

REASON_TEXTS: Mapping[Reason, ReasonText] = MappingProxyType({**CYCLE_REASONS, **SIDE_REASONS})
