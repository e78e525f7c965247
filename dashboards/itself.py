"""The dashboard about rheostat itself: whether collector, stream, tuner and learn work in time, and their use of resources."""

from __future__ import annotations

from grafana_foundation_sdk.builders import stat, timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards.external import external_panels
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
    make_dashboard,
    most,
    none_is_well,
    per,
    query,
    select,
    thresholds,
    verdict,
)
from streaming.shared.metric_defs import CollectorMetric, LearnMetric, ProcessMetric, StreamMetric, TunerMetric

UID = "rheostat-itself"
_PROFILES_OLD_SECONDS = 3 * 3600.0
_LATE_SECONDS, _LAGGING_SECONDS = 10.0, 60.0  # The length of two slides, and the most that a batch may be behind.


def wrong() -> list[stat.Panel]:
    return [
        verdict(
            "Reporting processes",
            "Number of processes whose metrics Prometheus can read: collector, stream, tuner and learn. Below 3, a "
            "process is down, or its port is not set (collector.http, stream.http, tuner.http, learn.http). The process "
            "learn is optional.",
            f"count({per('part', ProcessMetric.STARTED_AT)}) or vector(0)",
            thresholds((None, RED), (1, YELLOW), (3, GREEN)),
        ),
        verdict(
            "Last batch",
            "Time since the stream last produced signals. If this time keeps growing, the stream is down or hangs: see its log.",
            f"time() - {most(StreamMetric.BATCH_AT)}",
            thresholds((None, GREEN), (_LATE_SECONDS, YELLOW), (_LAGGING_SECONDS, RED)),
            unit=SECONDS,
            alert="PipelineLagging",
        ),
        verdict(
            "Rejected records",
            "Records that the stream could not read, in the time range shown. The rejects topic has the error of each record.",
            grown(StreamMetric.REJECTS, over="$__range"),
            none_is_well(),
            alert="RejectsRising",
        ),
        verdict(
            "Failed scrapes",
            "Scrapes that returned no metrics, in the time range shown. If it is above 0, run `rheostat doctor`: it examines "
            "the agent of each node.",
            f"{grown(CollectorMetric.SCRAPE_FAILURES, over='$__range')} or vector(0)",
            thresholds((None, GREEN), (1, YELLOW)),
        ),
        verdict(
            "Last cycle",
            "Time since the tuner's last cycle ended. If this time keeps growing, the tuner is down or hangs: restart it.",
            f"time() - {most(TunerMetric.CYCLED_AT)}",
            thresholds((None, GREEN), (_LATE_SECONDS * 2, YELLOW), (_LAGGING_SECONDS, RED)),
            unit=SECONDS,
            alert="TunerNotLeading",
        ),
        verdict(
            "Settings in use",
            "Whether every process uses the present settings file. If the file has changed, reload the tuner with "
            "SIGHUP, and restart the other processes.",
            f"min({select(ProcessMetric.CONFIG_APPLIED)})",
            thresholds((None, YELLOW), (1, GREEN)),
            words={"0": "file has changed", "1": "current"},
            alert="ConfigReloadFailed",
        ),
        verdict(
            "Agent credentials",
            "Whether the collector uses the present certificates and password file for the JMX agents. Not readable: "
            "correct the files that the collector's log names.",
            f"min({select(CollectorMetric.ACCESS_RELOAD_SUCCESSFUL)})",
            thresholds((None, RED), (1, GREEN)),
            words={"0": "not readable", "1": "in use"},
        ),
    ]


def stream_panels() -> list[timeseries.Panel]:
    return [
        limit_line(
            lines(
                "Signal age at the end of a batch",
                "Time from Kafka's timestamp of the newest record to the end of its batch. Above the dashed line the "
                "tuner raises no throttle.",
                SECONDS,
                query(f"{most(StreamMetric.BATCH_AT)} - {most(StreamMetric.NEWEST_INPUT_AT)}", "newest record"),
                query(f"{most(StreamMetric.BATCH_AT)} - {most(StreamMetric.WATERMARK_AT)}", "watermark"),
                query(most(TunerMetric.SIGNAL_AGE_MAX), "maximum signal age"),
                alert="PipelineLagging",
            ).min(0),
            "maximum signal age",
        ),
        limit_line(
            lines(
                "Batch duration",
                "Duration of a batch, and the time between the ends of two consecutive windows. If batches take longer than this "
                "time, raise stream.cores or stream.driver_memory_mb.",
                SECONDS,
                query(most(StreamMetric.BATCH_SECONDS), "duration"),
                query(most(StreamMetric.BATCH_INTERVAL), "interval"),
                alert="PipelineLagging",
            ).min(0),
            "interval",
        ),
        lines(
            "Unread records",
            "Unread records in the input topics when the last batch began, and the backlog of an outage: records that "
            "the stream skipped and processes in the background. If unread records keep growing, the stream is too slow.",
            COUNT,
            query(most(StreamMetric.INPUT_BEHIND), "unread"),
            query(most(StreamMetric.BACKLOG), "backlog of an outage"),
            query(most(StreamMetric.BACKLOG_LOST_RECORDS), "backlog deleted by retention"),
            axis="records",
        ).min(0),
        lines(
            "State rows",
            "Rows that Spark keeps between batches. More rows take more memory. If the stream runs out of memory, raise "
            "stream.driver_memory_mb.",
            COUNT,
            query(most(StreamMetric.STATE_ROWS), "rows"),
            axis="rows",
        ).min(0),
        bars(
            "Records read, rejected, late",
            "Rejected: the stream cannot read the record. Rejected, not written: such a record, which the stream did not "
            "write to the rejects topic. Late: the windows of the record were already closed. Skipped: reading the record "
            "would end the stream.",
            query(grown(StreamMetric.INPUT_ROWS), "read"),
            query(grown(StreamMetric.REJECTS), "rejected"),
            query(grown(StreamMetric.REJECTS_NOT_WRITTEN), "rejected, not written"),
            query(grown(StreamMetric.LATE_ROWS), "late"),
            query(grown(StreamMetric.QUARANTINED), "skipped"),
            axis="records",
        ),
        bars(
            "Batches and restarts of the query",
            "After an error, such as an outage of Kafka, the query restarts from its checkpoint. If the query restarts "
            "often, see the stream's log.",
            query(grown(StreamMetric.BATCHES), "batches"),
            query(grown(StreamMetric.RESTARTS), "restarts"),
            axis="batches, restarts",
        ),
        *_history_panels(),
        lines(
            "Active collectors and streams",
            "Collectors and streams that hold their lease; other collectors and streams are on standby. Usually there is "
            "one of each. If two are active for longer than a fail-over, one of the two cannot reach its consumer group.",
            COUNT,
            query(f"sum({select(CollectorMetric.ACTIVE)})", "collectors"),
            query(f"sum({select(StreamMetric.ACTIVE)})", "streams"),
        ).min(0),
    ]


def _history_panels() -> list[timeseries.Panel]:
    return [
        lines(
            "Age of the history",
            "Time since the end of the newest period, and the duration of the last job that computed periods. A period "
            "is ten minutes of the history. The stream computes a period one minute after the end of the period. If "
            "the age keeps growing, see the stream's log.",
            SECONDS,
            query(f"time() - {most(StreamMetric.HISTORY_AT)}", "newest period"),
            query(most(StreamMetric.HISTORY_SECONDS), "last job"),
        ).min(0),
        bars(
            "Periods of the history",
            "Computed: periods, including periods that are computed again after late signals. Refused: signals that do "
            "not have the format of the signals topic. Failed: passes (runs of this computation) that failed and are "
            "repeated.",
            query(grown(StreamMetric.HISTORY_PERIODS), "computed"),
            query(grown(StreamMetric.HISTORY_REFUSED), "refused signals"),
            query(grown(StreamMetric.HISTORY_FAILURES), "failed passes"),
            axis="periods",
        ),
    ]


def collector_panels() -> list[timeseries.Panel]:
    buckets = f'{CollectorMetric.SCRAPE_SECONDS.name}_bucket{{cluster="$cluster"}}'
    rates = f"sum by (le) (rate({buckets}[$__rate_interval]))"
    return [
        lines(
            "Scrape duration",
            "Duration of the scrapes of single nodes, including failed scrapes. If the duration is near the interval, "
            "the node or the network is slow.",
            SECONDS,
            query(f"histogram_quantile(0.5, {rates})", "median"),
            query(f"histogram_quantile(0.99, {rates})", "p99"),
        ).min(0),
        bars(
            "Failed scrapes, by node and cause",
            "`rheostat doctor` examines the agent of each node.",
            query(grown(CollectorMetric.SCRAPE_FAILURES, by="node, cause"), "node {{node}}: {{cause}}"),
            axis="scrapes",
        ),
        lines(
            "Oldest scrape",
            "Time since the last successful scrape, for the node with the longest time. It grows while this node does not answer.",
            SECONDS,
            query(f"time() - min({select(CollectorMetric.SCRAPED_AT)})", "oldest"),
        ).min(0),
        lines(
            "Rounds and full scans",
            "A round scrapes every node; a full scan reads the throttle settings of all topics and brokers. "
            "Rounds longer than the interval make signals late.",
            SECONDS,
            query(most(CollectorMetric.ROUND_SECONDS), "round"),
            query(most(CollectorMetric.FULL_SCAN_SECONDS), "full scan"),
        ).min(0),
        bars(
            "Collection work and failures",
            "Late round: it took longer than the interval. Record not written: the metrics topic did not accept it. "
            "Admin API failure: the cluster did not answer in time.",
            query(grown(CollectorMetric.ROUNDS), "rounds"),
            query(grown(CollectorMetric.LATE_ROUNDS), "late rounds"),
            query(grown(CollectorMetric.FULL_SCANS), "full scans"),
            query(grown(CollectorMetric.RECORDS), "records"),
            query(grown(CollectorMetric.RECORDS_FAILED), "records not written"),
            query(grown(CollectorMetric.ADMIN_FAILURES), "Admin API failures"),
            axis="rounds, scans, records",
        ),
    ]


def tuner_panels() -> list[timeseries.Panel]:
    return [
        lines(
            "Cycle duration",
            "Duration of the tuner's last cycle. It grows while brokers do not answer.",
            SECONDS,
            query(most(TunerMetric.CYCLE_SECONDS), "cycle"),
        ).min(0),
        bars(
            "Failed cycles and skipped records",
            "A failed cycle changes nothing; the tuner's log has the error. A skipped record is a record that the tuner "
            "could not read.",
            query(grown(TunerMetric.CYCLE_FAILURES, by="controller"), "failed cycle: {{controller}}"),
            query(grown(TunerMetric.RECORDS_REFUSED, by="topic"), "skipped record of {{topic}}"),
            axis="cycles, records",
        ),
        limit_line(
            lines(
                "Age of the tuner's data",
                "Age of the cluster snapshot, and of the newest sample of each kind of signal. Above the dashed line "
                "the tuner raises no throttle: check collector and stream with `rheostat doctor`.",
                SECONDS,
                query(per("input", TunerMetric.INPUT_AGE_SECONDS), "{{input}}"),
                query(most(TunerMetric.SIGNAL_AGE_MAX), "maximum signal age"),
                alert="SignalsStale",
            ).min(0),
            "maximum signal age",
        ),
    ]


def learn_panels() -> list[timeseries.Panel]:
    return [
        from_here_on(
            lines(
                "Age of what was learned",
                "Time since the end of the history from which the profiles were learned, and the duration of the "
                "newest update. An age of up to 70 minutes is usual. If the age keeps growing, learn does not run or "
                "the stream writes no "
                "history.",
                SECONDS,
                query(f"time() - {most(LearnMetric.LEARNED_TO)}", "age"),
                query(most(LearnMetric.LEARN_SECONDS), "duration of the update"),
                alert="ProfilesStale",
            ).min(0),
            _PROFILES_OLD_SECONDS,
        ),
        bars(
            "Records of learn",
            "Periods read, records refused, and profiles written. A refused record is not a valid period: find the "
            "client that writes such records to the history topic.",
            query(grown(LearnMetric.PERIODS), "periods"),
            query(grown(LearnMetric.REFUSED), "refused"),
            query(grown(LearnMetric.WRITTEN), "written"),
            query(grown(LearnMetric.FAILED), "not written"),
            query(most(LearnMetric.BROKERS), "brokers with a profile"),
            query(per("kind", LearnMetric.LEFT_OUT), "{{kind}} left out, because there are too many"),
            axis="records",
        ),
    ]


def cost() -> list[timeseries.Panel]:
    return [
        lines(
            "CPU",
            "CPU time of each process; 100 % is one core. The figures do not include Spark's JVM, which is a process of its own.",
            RATIO,
            query(f"sum by (part) (rate({select(ProcessMetric.CPU_SECONDS)}[$__rate_interval]))", "{{part}}"),
        ).min(0),
        lines(
            "Memory",
            "Resident memory of each process. The figures do not include Spark's JVM.",
            BYTES,
            query(per("part", ProcessMetric.RESIDENT_BYTES), "{{part}}"),
            axis="memory",
        ).min(0),
        lines(
            "Uptime",
            "Time since each process started. A drop is a restart: see the log of the process.",
            SECONDS,
            query(f"time() - {per('part', ProcessMetric.STARTED_AT)}", "{{part}}"),
        ).min(0),
        from_here_on(
            bars(
                "Threads that ended because of an error",
                "Internal errors of rheostat. The process continues without the thread. Restart the process, and report "
                "the error in its log.",
                query(grown(ProcessMetric.THREADS_ENDED, by="part"), "{{part}}"),
                alert="ThreadEnded",
                axis="threads",
            ),
            1,
        ),
        bars(
            "Settings reloads",
            "Reloads of the tuner by SIGHUP: applied, or refused because the file is invalid or a change needs a "
            "restart.",
            query(grown(ProcessMetric.CONFIG_RELOADS, by="result"), "{{result}}"),
            alert="ConfigReloadFailed",
            axis="reloads",
        ),
        lines(
            "Age of the last valid settings file",
            "Time since each process last read a valid settings file. If this time keeps growing, `rheostat config "
            "check` names the error.",
            SECONDS,
            query(f"time() - {per('part', ProcessMetric.CONFIG_VALID_AT)}", "{{part}}"),
            alert="ConfigReloadFailed",
        ).min(0),
    ]


def board() -> dashboard.Dashboard:
    return make_dashboard(
        "rheostat itself",
        UID,
        "Health and resource use of rheostat's own processes: collector, stream, tuner, learn.",
        [
            ("Is anything wrong?", wrong()),
            ("Does the stream process records in time?", stream_panels()),
            ("Does the collector reach every node?", collector_panels()),
            ("Does the tuner decide in time?", tuner_panels()),
            ("What do other services answer?", external_panels()),
            ("What does rheostat learn?", learn_panels()),
            ("What does rheostat cost?", cost()),
        ],
    )
