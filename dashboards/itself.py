"""rheostat itself: how old is what it sees, does it keep up, what can it not read, what does it cost?"""

from __future__ import annotations

from grafana_foundation_sdk.builders import stat, timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards.parts import (
    BYTES,
    COUNT,
    GREEN,
    RATIO,
    RED,
    SECONDS,
    YELLOW,
    bars,
    from_here_on,
    grown,
    limit_line,
    lines,
    made,
    most,
    none_is_well,
    per,
    query,
    select,
    thresholds,
    verdict,
)
from streaming.shared.metric_defs import CollectorMetric, ProcessMetric, StreamMetric, TunerMetric

UID = "rheostat-itself"
_LATE_SECONDS, _LAGGING_SECONDS = 10.0, 60.0  # Two windows, and all that a batch may be behind.


def wrong() -> list[stat.Panel]:
    return [
        verdict(
            "Parts that tell of themselves",
            "Collector, stream and tuner: their /metrics answers (collector.http, stream.http, tuner.http).",
            f"count({per('part', ProcessMetric.STARTED_AT)}) or vector(0)",
            thresholds((None, RED), (1, YELLOW), (3, GREEN)),
        ),
        verdict(
            "Last batch",
            "How long ago the stream last made signals.",
            f"time() - {most(StreamMetric.BATCH_AT)}",
            thresholds((None, GREEN), (_LATE_SECONDS, YELLOW), (_LAGGING_SECONDS, RED)),
            unit=SECONDS,
            alert="PipelineLagging",
        ),
        verdict(
            "Rejects",
            "Records that could not be read, within the time range shown. The rejects topic has them, with reasons.",
            grown(StreamMetric.REJECTS, over="$__range"),
            none_is_well(),
            alert="RejectsRising",
        ),
        verdict(
            "Scrapes that gave nothing",
            "Within the time range shown.",
            f"{grown(CollectorMetric.SCRAPE_FAILURES, over='$__range')} or vector(0)",
            thresholds((None, GREEN), (1, YELLOW)),
        ),
        verdict(
            "Last cycle",
            "How long ago the tuner's last cycle ended.",
            f"time() - {most(TunerMetric.CYCLED_AT)}",
            thresholds((None, GREEN), (_LATE_SECONDS * 2, YELLOW), (_LAGGING_SECONDS, RED)),
            unit=SECONDS,
            alert="TunerNotLeading",
        ),
        verdict(
            "Settings file",
            "Whether every part runs with what the settings file says now, or a reload or a restart would change that.",
            f"min({select(ProcessMetric.CONFIG_APPLIED)})",
            thresholds((None, YELLOW), (1, GREEN)),
            words={"0": "changed since", "1": "in force"},
            alert="ConfigReloadFailed",
        ),
        verdict(
            "Certificates and password",
            "Of the JMX agents: whether the collector uses them as they stand on disk.",
            f"min({select(CollectorMetric.ACCESS_RELOAD_SUCCESSFUL)})",
            thresholds((None, RED), (1, GREEN)),
            words={"0": "not readable", "1": "in use"},
        ),
    ]


def stream_panels() -> list[timeseries.Panel]:
    return [
        limit_line(
            lines(
                "Age of a signal when it is made",
                "From Kafka taking the newest record of a batch to its end, and the age from which on the tuner raises nothing.",
                SECONDS,
                query(f"{most(StreamMetric.BATCH_AT)} - {most(StreamMetric.NEWEST_INPUT_AT)}", "newest input"),
                query(f"{most(StreamMetric.BATCH_AT)} - {most(StreamMetric.WATERMARK_AT)}", "watermark"),
                query(most(TunerMetric.SIGNAL_AGE_MAX), "raises nothing above"),
                alert="PipelineLagging",
            ).min(0),
            "raises nothing above",
        ),
        limit_line(
            lines(
                "A batch",
                "How long it takes, and how often windows end: what takes longer falls behind.",
                SECONDS,
                query(most(StreamMetric.BATCH_SECONDS), "took"),
                query(most(StreamMetric.BATCH_INTERVAL), "a window every"),
                alert="PipelineLagging",
            ).min(0),
            "a window every",
        ),
        lines(
            "Records not read yet",
            "Of all sources when the last batch began; and of an outage, worked off beside the live query.",
            COUNT,
            query(most(StreamMetric.INPUT_BEHIND), "behind"),
            query(most(StreamMetric.BACKLOG), "of an outage"),
            query(most(StreamMetric.BACKLOG_LOST_RECORDS), "of it deleted before they were read"),
        ).min(0),
        lines(
            "Rows of state",
            "What Spark keeps between two batches.",
            COUNT,
            query(most(StreamMetric.STATE_ROWS), "rows"),
        ).min(0),
        bars(
            "Records read, refused, late",
            "refused: could not be read. not written: nor are they in the rejects topic. late: too late for their windows. "
            "left out: they ended the stream whenever they were read.",
            query(grown(StreamMetric.INPUT_ROWS), "read"),
            query(grown(StreamMetric.REJECTS), "refused"),
            query(grown(StreamMetric.REJECTS_NOT_WRITTEN), "refused, not written"),
            query(grown(StreamMetric.LATE_ROWS), "late"),
            query(grown(StreamMetric.QUARANTINED), "left out"),
        ),
        bars(
            "Batches and restarts of the query",
            "A query that died because Kafka was away is started again from its checkpoint.",
            query(grown(StreamMetric.BATCHES), "batches"),
            query(grown(StreamMetric.RESTARTS), "restarts"),
        ),
    ]


def collector_panels() -> list[timeseries.Panel]:
    buckets = f'{CollectorMetric.SCRAPE_SECONDS.name}_bucket{{cluster="$cluster"}}'
    rates = f"sum by (le) (rate({buckets}[$__rate_interval]))"
    return [
        lines(
            "A scrape of one node",
            "Failed ones included.",
            SECONDS,
            query(f"histogram_quantile(0.5, {rates})", "median"),
            query(f"histogram_quantile(0.99, {rates})", "99 %"),
        ).min(0),
        bars(
            "Scrapes that gave nothing, by cause",
            "And which node it was: `rheostat doctor` looks closer.",
            query(grown(CollectorMetric.SCRAPE_FAILURES, by="node, cause"), "node {{node}}: {{cause}}"),
        ),
        lines(
            "Age of a node's last good scrape",
            "Longest of all nodes.",
            SECONDS,
            query(f"time() - min({select(CollectorMetric.SCRAPED_AT)})", "oldest"),
        ).min(0),
        lines(
            "Rounds and sweeps",
            "A round scrapes every node; a sweep looks at every topic's throttle lists.",
            SECONDS,
            query(most(CollectorMetric.ROUND_SECONDS), "round"),
            query(most(CollectorMetric.FULL_SCAN_SECONDS), "sweep"),
        ).min(0),
        bars(
            "Rounds, records and what went wrong",
            "late: took longer than the interval. not taken: the metrics topic did not take a record. not answered: the Admin API.",
            query(grown(CollectorMetric.ROUNDS), "rounds"),
            query(grown(CollectorMetric.LATE_ROUNDS), "late rounds"),
            query(grown(CollectorMetric.FULL_SCANS), "sweeps"),
            query(grown(CollectorMetric.RECORDS), "records"),
            query(grown(CollectorMetric.RECORDS_FAILED), "records not taken"),
            query(grown(CollectorMetric.ADMIN_FAILURES), "not answered"),
        ),
    ]


def tuner_panels() -> list[timeseries.Panel]:
    return [
        lines(
            "A cycle", "How long the tuner's last one took.", SECONDS, query(most(TunerMetric.CYCLE_SECONDS), "cycle")
        ).min(0),
        bars(
            "Cycles that failed, records refused",
            "A cycle that fails changes nothing; the log has the error. A refused record could not be read and was passed over.",
            query(grown(TunerMetric.CYCLE_FAILURES, by="controller"), "cycle of {{controller}}"),
            query(grown(TunerMetric.RECORDS_REFUSED, by="topic"), "record of {{topic}}"),
        ),
        limit_line(
            lines(
                "Age of what the tuner knows",
                "The look at the cluster, and of each kind of signal the newest sample.",
                SECONDS,
                query(per("input", TunerMetric.INPUT_AGE_SECONDS), "{{input}}"),
                query(most(TunerMetric.SIGNAL_AGE_MAX), "raises nothing above"),
                alert="SignalsStale",
            ).min(0),
            "raises nothing above",
        ),
    ]


def cost() -> list[timeseries.Panel]:
    return [
        lines(
            "CPU",
            "Of each part, one core being 100 %; Spark's JVM is a process of its own and not in it.",
            RATIO,
            query(f"sum by (part) (rate({select(ProcessMetric.CPU_SECONDS)}[$__rate_interval]))", "{{part}}"),
        ).min(0),
        lines(
            "Memory",
            "Resident; Spark's JVM is not in it.",
            BYTES,
            query(per("part", ProcessMetric.RESIDENT_BYTES), "{{part}}"),
        ).min(0),
        lines(
            "Running for",
            "Since its start.",
            SECONDS,
            query(f"time() - {per('part', ProcessMetric.STARTED_AT)}", "{{part}}"),
        ).min(0),
        from_here_on(
            bars(
                "Threads ended by an error",
                "A fault of rheostat's own; the log of the part names the thread. The part goes on without it.",
                query(grown(ProcessMetric.THREADS_ENDED, by="part"), "{{part}}"),
                alert="ThreadEnded",
            ),
            1,
        ),
        bars(
            "Settings read anew",
            "On SIGHUP, which the tuner alone takes: taken up, or refused as the file has a fault or changes what needs a restart.",
            query(grown(ProcessMetric.CONFIG_RELOADS, by="result"), "{{result}}"),
            alert="ConfigReloadFailed",
        ),
        lines(
            "Settings file last found in order",
            "How long ago each part read it and found no fault.",
            SECONDS,
            query(f"time() - {per('part', ProcessMetric.CONFIG_VALID_AT)}", "{{part}}"),
            alert="ConfigReloadFailed",
        ).min(0),
    ]


def board() -> dashboard.Dashboard:
    return made(
        "rheostat itself",
        UID,
        "How old is what it sees, does it keep up, what can it not read, what does it cost?",
        [
            ("Is anything wrong?", wrong()),
            ("Stream: does it keep up?", stream_panels()),
            ("Collector: does it see every node?", collector_panels()),
            ("Tuner", tuner_panels()),
            ("What does it cost?", cost()),
        ],
    )
