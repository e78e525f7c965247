"""The controller and its tenants: how much do clients create and delete, how loaded is the controller, and which tenants wait?

The board needs no mutation quota. Panels about quotas say so.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import stat, timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards.parts import (
    ACTION_AND_REASON,
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
    make_dashboard,
    most,
    none_is_well,
    per,
    query,
    reasons_in_words,
    thresholds,
    verdict,
)
from streaming.shared.metric_defs import TunerMetric
from tuner.control.mutation_quota.reason_texts import QUOTA_REASON_TEXTS

UID = "rheostat-controller"
_TENANT = "user {{user}} client-id {{client_id}}"


def wrong() -> list[stat.Panel]:
    return [
        verdict(
            "Storm",
            "1 while creations and deletions of topics overload the controller, with or without a mutation quota. "
            "`/api/v1/mutations` and the status page show a command that limits the tenant; they name the tenant if "
            "Kafka measures each tenant.",
            most(TunerMetric.CONTROLLER_STORM),
            thresholds((None, GREEN), (1, RED)),
            words={"0": "none", "1": "storm"},
            alert="StormOnController",
            span=3,
        ),
        verdict(
            "Mutation rate",
            "Partitions/s that all clients together create and delete, over the last half minute. No data: the active "
            "controller is not measured.",
            most(TunerMetric.MUTATIONS, change="all"),
            thresholds((None, "blue")),
            unit=PER_SECOND,
            span=3,
        ),
        verdict(
            "Mutation quotas",
            "Whether rheostat can read the mutation quotas. Not readable: `rheostat doctor` names the missing "
            "right. No data: tuner.mutation_quota is not set.",
            most(TunerMetric.QUOTAS_READABLE),
            thresholds((None, RED), (1, GREEN)),
            words={"0": "not readable", "1": "readable"},
            span=3,
        ),
        verdict(
            "Controller pressure",
            "Load of the controller: measured value ÷ limit, for the measure with the highest ratio. Above 100 %, the "
            "controller creates topics too slowly or nodes apply metadata too late, and the tuner lowers the total rate. "
            "No data without mutation quotas.",
            most(TunerMetric.CONTROLLER_PRESSURE),
            thresholds((None, GREEN), (0.85, YELLOW), (1, RED)),
            unit=RATIO,
            alert="ControllerUnderPressure",
            span=3,
        ),
        verdict(
            "Throttled tenants",
            "Tenants whose mutation quota is exhausted now. Above 0, the creations and deletions of these tenants wait: "
            "`rheostat quotas` names the tenants.",
            most(TunerMetric.TENANTS_THROTTLED),
            thresholds((None, GREEN), (1, YELLOW)),
            alert="TenantQuotaExhausted",
            span=3,
        ),
        verdict(
            "Total rate",
            "Partitions/s that all tenants together may create and delete. The tuner lowers this rate while the pressure "
            "is above 100 %.",
            most(TunerMetric.MUTATION_TOTAL),
            thresholds((None, "blue")),
            unit=PER_SECOND,
            span=3,
        ),
        verdict(
            "Managed quotas",
            "Mutation quotas that rheostat has set and will restore.",
            most(TunerMetric.QUOTAS_OWNED),
            thresholds((None, "blue")),
            span=3,
        ),
        verdict(
            "Failed writes",
            "Writes of mutation quotas that failed, or whose new value was missing when the tuner read it back, in the "
            "time range shown. If it is above 0, run "
            "`rheostat doctor`: it checks permissions and brokers.",
            grown(TunerMetric.QUOTA_FAILURES, over="$__range"),
            none_is_well(),
            alert="TunerActuationFailing",
            span=3,
        ),
    ]


def mutations() -> list[timeseries.Panel]:
    return [
        lines(
            "Partitions created and deleted",
            "Partitions/s of all clients. Partitions that clients create and delete between two scrapes are not counted. "
            "If Kafka measures mutations for quotas, another line shows the exact sum. During a storm a line shows the "
            "quota that would end the storm.",
            PER_SECOND,
            query(per("change", TunerMetric.MUTATIONS), "{{change}}"),
            query(most(TunerMetric.STORM_QUOTA), "quota that would end the storm"),
            axis="partitions per second",
        ).min(0),
        lines(
            "Topics created and deleted",
            "Topics/s of all clients. The same number of partitions costs the controller more if the partitions belong "
            "to many topics.",
            PER_SECOND,
            query(per("change", TunerMetric.TOPIC_MUTATIONS), "{{change}}"),
            axis="topics per second",
        ).min(0),
        lines(
            "Requests by kind",
            "Answered requests that create topics, delete topics or add partitions, including refused requests.",
            PER_SECOND,
            query(per("request", TunerMetric.MUTATION_REQUESTS), "{{request}}"),
            axis="requests per second",
        ).min(0),
        lines(
            "Time of a request, by kind",
            "Mean time on the active controller. This time hardly grows in a storm, because requests wait on the "
            "brokers: look at the panel Forwarding to the controller.",
            SECONDS,
            query(per("request", TunerMetric.MUTATION_REQUEST_SECONDS), "{{request}}"),
        ).min(0),
        lines(
            "Requests of old clients, by kind",
            "Share of requests from clients that are older than KIP-599. A mutation quota delays these requests instead "
            "of refusing them. Upgrade these clients before you rely on quotas.",
            RATIO,
            query(per("request", TunerMetric.OLD_CLIENT_REQUESTS), "{{request}}"),
        )
        .min(0)
        .axis_soft_max(1),
        from_here_on(
            lines(
                "Age of applied metadata",
                "Time by which the slowest node is behind the metadata log. Up to 0.5 s is usual. From 1 s on, clients "
                "see new topics and leaders late.",
                SECONDS,
                query(most(TunerMetric.METADATA_APPLY_LAG), "slowest node"),
                alert="StormOnController",
            )
            .min(0)
            .axis_soft_max(1.2),
            1,
        ),
    ]


def controller() -> list[timeseries.Panel]:
    return [
        from_here_on(
            lines(
                "Controller pressure over time",
                "Load of the controller: measured value ÷ limit, for the measure with the highest ratio. Well below "
                "100 % the tuner raises the total rate, near 100 % it keeps the rate, and above 100 % it lowers the rate.",
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
                "Event queue time",
                "Mean time that an event waits for the active controller, over half a minute. Above the objective the"
                " controller is overloaded.",
                SECONDS,
                query(most(TunerMetric.CONTROLLER_QUEUE_SECONDS), "mean time"),
                query(most(TunerMetric.CONTROLLER_QUEUE_OBJECTIVE), "objective"),
            ).min(0),
            "objective",
        ),
        limit_line(
            lines(
                "Topic-create probe latency (p90)",
                "Latency of the tuner's own probe requests, over half a minute. Above the objective, topic creations "
                "wait. No data without the setting create_probe_p90_ms_max.",
                SECONDS,
                query(most(TunerMetric.CREATE_PROBE_P90_SECONDS), "p90"),
                query(most(TunerMetric.CREATE_PROBE_P90_OBJECTIVE), "objective"),
            ).min(0),
            "objective",
        ),
        limit_line(
            lines(
                "Forwarding to the controller",
                "Share of the time for which a broker forwards creations and deletions to the controller. A broker "
                "forwards one request at a time, so near 100 % requests wait on the brokers.",
                RATIO,
                query(most(TunerMetric.FORWARDING_BUSY), "busy"),
                query(most(TunerMetric.FORWARDING_BUSY_OBJECTIVE), "objective"),
            ).min(0),
            "objective",
        ),
        limit_line(
            lines(
                "Idle share of the controller",
                "Share of the time for which the active controller is idle. Below the objective the tuner lowers the total rate.",
                RATIO,
                query(most(TunerMetric.CONTROLLER_IDLE), "idle"),
                query(most(TunerMetric.CONTROLLER_IDLE_OBJECTIVE), "objective"),
            )
            .min(0)
            .max(1),
            "objective",
        ),
        lines(
            "Operations and refused topics",
            "Operations that the controller starts, and topics that a mutation quota refuses to create or delete "
            "(THROTTLING_QUOTA_EXCEEDED). If many are refused, look at the tenants below.",
            PER_SECOND,
            query(most(TunerMetric.CONTROLLER_OPERATIONS), "operations"),
            query(most(TunerMetric.MUTATIONS_REJECTED), "refused topics"),
            axis="operations, topics per second",
        ).min(0),
    ]


def tenants() -> list[timeseries.Panel]:
    who = "user, client_id"
    return [
        lines(
            "Creations and deletions, by tenant",
            "Partitions/s of the 50 busiest tenants, as Kafka's mean over 30 to 60 s, and the total rate. No data: no "
            "mutation quota is set, so Kafka does not measure tenants.",
            PER_SECOND,
            query(per(who, TunerMetric.TENANT_RATE), _TENANT),
            query(most(TunerMetric.MUTATION_TOTAL), "total rate"),
            axis="partitions per second",
        ).min(0),
        lines(
            "Quotas, by tenant",
            "Mutation quotas in force, in partitions/s. `rheostat quotas` shows the reason of each quota.",
            PER_SECOND,
            query(per(who, TunerMetric.TENANT_QUOTA), _TENANT),
            axis="partitions per second",
        ).min(0),
        lines(
            "Tokens left, by tenant",
            "Partitions that a tenant may create or delete at once. Below zero Kafka refuses its requests until "
            "the bucket refills.",
            COUNT,
            query(per(who, TunerMetric.TENANT_TOKENS), _TENANT),
            axis="partitions",
        ).axis_centered_zero(True),
        from_here_on(
            lines(
                "Exhausted quotas, by tenant",
                "1 while a tenant's quota is exhausted. If this lasts and the tenant needs more, raise the tenant's "
                "weight or rate_per_s_min.",
                COUNT,
                query(per(who, TunerMetric.TENANT_EXHAUSTED), _TENANT),
                alert="TenantQuotaExhausted",
                axis="1 = exhausted",
            )
            .min(0)
            .axis_soft_max(1),
            1,
        ),
    ]


def decisions() -> list[timeseries.Panel]:
    return [
        reasons_in_words(
            bars(
                "Decisions about quotas, by reason",
                "Why a quota or the total rate changed or stayed. The reference page of the reasons says what to do.",
                query(decided(TunerMetric.QUOTA_DECISIONS), ACTION_AND_REASON),
                axis="decisions",
            ),
            QUOTA_REASON_TEXTS,
        ),
        bars(
            "Failed writes of quotas",
            "Writes that failed, or whose new value was missing when rheostat read the setting back. If writes fail, "
            "`rheostat doctor` checks rights and brokers.",
            query(grown(TunerMetric.QUOTA_FAILURES), "failed"),
            axis="writes",
        ),
    ]


def board() -> dashboard.Dashboard:
    return make_dashboard(
        "Controller and tenants",
        UID,
        "Creations and deletions of all clients, load of the controller, mutation quotas (KIP-599), and why the tuner set them.",
        [
            ("Is anything wrong?", wrong()),
            ("How much do clients create and delete?", mutations()),
            ("How loaded is the controller?", controller()),
            ("Which tenants use the controller, and which tenants wait?", tenants()),
            ("Why did the tuner decide so?", decisions()),
        ],
        view="/controller",
    )
