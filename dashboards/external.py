"""The panels about services outside rheostat, for the board ``itself.py``."""

from __future__ import annotations

from grafana_foundation_sdk.builders import timeseries

from dashboards.parts import COUNT, bars, from_here_on, grown, lines, most, per, query
from streaming.shared.metric_defs import TunerMetric


def external_panels() -> list[timeseries.Panel]:
    """Returns the panels of checks, webhooks and Cruise Control."""
    return [
        from_here_on(
            lines(
                "Checks that veto",
                "1 while a check of tuner.vetoes holds or lowers throttles, or has no valid answer. After unknown_hold_s a check "
                "without an answer does not veto.",
                COUNT,
                query(per("veto", TunerMetric.VETO_ACTIVE), "{{veto}} vetoes"),
                query(per("veto", TunerMetric.VETO_UNKNOWN), "{{veto}} does not answer"),
                alert="VetoUnanswered",
            ).min(0),
            1,
        ),
        bars(
            "Requests to other services",
            "Requests of checks without a valid answer, and deliveries to webhooks. A dropped event is lost, but the "
            "journal has the decision that the event reports.",
            query(grown(TunerMetric.VETO_FAILURES, by="veto, kind"), "{{veto}}: {{kind}}"),
            query(grown(TunerMetric.WEBHOOK_DELIVERIES, by="webhook, result"), "{{webhook}}: {{result}}"),
            query(per("webhook", TunerMetric.WEBHOOK_QUEUE), "{{webhook}}: waiting"),
            axis="requests",
            alert="WebhookDropping",
        ),
        lines(
            "Concurrency of Cruise Control",
            "Partitions that Cruise Control moves per broker at a time, whether Cruise Control answers, and the tuner's "
            "decisions about this number.",
            COUNT,
            query(most(TunerMetric.CRUISE_CONTROL_MOVEMENTS), "partitions per broker"),
            query(most(TunerMetric.CRUISE_CONTROL_ANSWERS), "answers"),
            query(grown(TunerMetric.CRUISE_CONTROL_DECISIONS, by="action, reason"), "{{action}}: {{reason}}"),
        ).min(0),
    ]
