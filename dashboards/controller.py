"""The controller and its tenants: how hard is it pressed, how much may all do, who does how much of it, and who waits?"""

from __future__ import annotations

from grafana_foundation_sdk.builders import stat, timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards.parts import (
    COUNT,
    GREEN,
    PER_SECOND,
    RATIO,
    RED,
    SECONDS,
    YELLOW,
    bars,
    decided,
    from_here_on,
    grown,
    limit_line,
    lines,
    made,
    most,
    none_is_well,
    per,
    query,
    thresholds,
    verdict,
)
from streaming.shared.metric_defs import TunerMetric

UID = "rheostat-controller"
_TENANT = "user {{user}} client-id {{client_id}}"


def wrong() -> list[stat.Panel]:
    return [
        verdict(
            "Quotas",
            "Whether the mutation quotas can be read. No data: none are asked for (tuner.mutation_quota).",
            most(TunerMetric.QUOTAS_READABLE),
            thresholds((None, RED), (1, GREEN)),
            words={"0": "not seen", "1": "seen"},
            span=4,
        ),
        verdict(
            "Pressure",
            "On the controller, of its worst objective: 100 % is as hard as it may be.",
            most(TunerMetric.CONTROLLER_PRESSURE),
            thresholds((None, GREEN), (0.85, YELLOW), (1, RED)),
            unit=RATIO,
            alert="ControllerUnderPressure",
            span=4,
        ),
        verdict(
            "Tenants held back",
            "Tenants whose mutation quota is exhausted now.",
            most(TunerMetric.TENANTS_THROTTLED),
            thresholds((None, GREEN), (1, YELLOW)),
            alert="TenantQuotaExhausted",
            span=4,
        ),
        verdict(
            "Allowed in all",
            "Partitions/s that all tenants together may create and delete.",
            most(TunerMetric.MUTATION_TOTAL),
            thresholds((None, "blue")),
            unit=PER_SECOND,
            span=4,
        ),
        verdict(
            "Quotas that are rheostat's",
            "It has set them, and will put back what stood before.",
            most(TunerMetric.QUOTAS_OWNED),
            thresholds((None, "blue")),
            span=4,
        ),
        verdict(
            "Failed writes",
            "Writes of mutation quotas that failed or were not seen to stand, within the time range shown.",
            grown(TunerMetric.QUOTA_FAILURES, over="$__range"),
            none_is_well(),
            alert="TunerActuationFailing",
            span=4,
        ),
    ]


def controller() -> list[timeseries.Panel]:
    return [
        from_here_on(
            lines(
                "Pressure on the controller",
                "Of its worst objective. The law raises the total below it, cuts above it, and rests in between.",
                RATIO,
                query(most(TunerMetric.CONTROLLER_PRESSURE), "pressure"),
                alert="ControllerUnderPressure",
            )
            .min(0)
            .axis_soft_max(1.2),
            1,
        ),
        limit_line(
            lines(
                "Wait in the event queue",
                "How long an event waits for the active controller, mean of half a minute, and how long it may.",
                SECONDS,
                query(most(TunerMetric.CONTROLLER_QUEUE_SECONDS), "wait"),
                query(most(TunerMetric.CONTROLLER_QUEUE_OBJECTIVE), "objective"),
            ).min(0),
            "objective",
        ),
        limit_line(
            lines(
                "What creations take for whoever asks",
                "9 of 10 take no longer, of half a minute, and how long they may: where create_probe_p90_ms_max is asked for.",
                SECONDS,
                query(most(TunerMetric.CREATE_PROBE_P90_SECONDS), "felt"),
                query(most(TunerMetric.CREATE_PROBE_P90_OBJECTIVE), "objective"),
            ).min(0),
            "objective",
        ),
        limit_line(
            lines(
                "Brokers' lines to the controller",
                "Each broker hands on one creation or deletion at a time: the share of the time in which that line is taken, and "
                "the most that it should be.",
                RATIO,
                query(most(TunerMetric.FORWARDING_BUSY), "taken"),
                query(most(TunerMetric.FORWARDING_BUSY_OBJECTIVE), "objective"),
            ).min(0),
            "objective",
        ),
        limit_line(
            lines(
                "Idle share of the controller's thread",
                "It reacts at once, so it leads; and the least that it should be.",
                RATIO,
                query(most(TunerMetric.CONTROLLER_IDLE), "idle"),
                query(most(TunerMetric.CONTROLLER_IDLE_OBJECTIVE), "objective"),
            )
            .min(0)
            .max(1),
            "objective",
        ),
        lines(
            "Operations and refusals",
            "Operations that the controller begins, and requests answered with THROTTLING_QUOTA_EXCEEDED.",
            PER_SECOND,
            query(most(TunerMetric.CONTROLLER_OPERATIONS), "operations"),
            query(most(TunerMetric.MUTATIONS_REJECTED), "refused requests"),
        ).min(0),
    ]


def tenants() -> list[timeseries.Panel]:
    who = "user, client_id"
    return [
        lines(
            "What tenants create and delete",
            "Partitions/s of the busiest fifty, Kafka's own mean of 30 to 60 s, and what all together may.",
            PER_SECOND,
            query(per(who, TunerMetric.TENANT_RATE), _TENANT),
            query(most(TunerMetric.MUTATION_TOTAL), "allowed in all"),
        ).min(0),
        lines(
            "Their quotas",
            "In force now, partitions/s.",
            PER_SECOND,
            query(per(who, TunerMetric.TENANT_QUOTA), _TENANT),
        ).min(0),
        lines(
            "What is left in their buckets",
            "Partitions that may still be spent at once; below zero a tenant waits until it is paid back.",
            COUNT,
            query(per(who, TunerMetric.TENANT_TOKENS), _TENANT),
        ).axis_centered_zero(True),
        from_here_on(
            lines(
                "Held back",
                "1 while a tenant's quota is exhausted.",
                COUNT,
                query(per(who, TunerMetric.TENANT_EXHAUSTED), _TENANT),
                alert="TenantQuotaExhausted",
            )
            .min(0)
            .axis_soft_max(1),
            1,
        ),
    ]


def decisions() -> list[timeseries.Panel]:
    return [
        bars(
            "Decisions about quotas, by reason",
            "Why a quota, or the total, changed or did not.",
            query(decided(TunerMetric.QUOTA_DECISIONS), "{{action}}: {{reason}}"),
        ),
        bars(
            "Writes of quotas that failed",
            "Or were not seen to stand.",
            query(grown(TunerMetric.QUOTA_FAILURES), "failed"),
        ),
    ]


def board() -> dashboard.Dashboard:
    return made(
        "Controller and tenants",
        UID,
        "Mutation quotas (KIP-599) as rheostat turns them.",
        [
            ("Is anything wrong?", wrong()),
            ("How is the controller?", controller()),
            ("Who does how much, and who waits?", tenants()),
            ("Why did the tuner decide so?", decisions()),
        ],
    )
