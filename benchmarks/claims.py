"""The claims of docs/explanation/performance.md: each with its bound, and how to read it from the JSON of its benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.control import OURS, totals
from benchmarks.creation import SIZES as CREATION_SIZES
from benchmarks.eta import ERROR_MAX
from benchmarks.forecasts.horizons import BEST_EXPERT_MAX, OTHER_MAX, SEASONAL_MAX
from benchmarks.history import DAY_MB_MAX, PASS_CPU_S_MAX
from benchmarks.laws import auto
from benchmarks.learn import FALSE_PER_WEEK_MAX, PRECISION_MIN, RECALL_MIN, RSS_GROWTH_MAX
from benchmarks.recoveries.score import ACT, NONE, OBJECTIVE_MS, RATIO_MAX

Figures = Mapping[str, Any]  # The JSON object that a benchmark prints with --json.


@dataclass(frozen=True)
class Claim:
    """One figure that the documents promise.

    Attributes:
        name: what is measured, with its unit; the key in the results file.
        read: returns the figure from the benchmark's JSON; None if the run did not measure it.
        at_most, at_least: the bound; a figure without either is given for comparison.
    """

    name: str
    read: Callable[[Figures], float | None]
    at_most: float | None = None
    at_least: float | None = None

    def is_met(self, figure: float) -> bool | None:
        """Returns whether the figure keeps the bound; None without a bound."""
        if self.at_most is not None:
            return figure <= self.at_most
        return None if self.at_least is None else figure >= self.at_least


def _judge(key: str) -> Callable[[Figures], float]:
    return lambda figures: float(figures["periods_s"]["5"]["judge"][key])


def _law(key: str) -> Callable[[Figures], float | None]:
    def read(figures: Figures) -> float | None:
        if _AUTO in figures:
            return None
        figure = next(total for total in totals(figures["rows"]) if total["policy"] == OURS)[key]
        return None if figure is None else float(figure)

    return read


_AUTO = "totals"  # The key that only ``benchmarks.control --auto`` prints.


def _auto(move: int, key: str) -> Callable[[Figures], float | None]:
    return lambda figures: float(figures[_AUTO][move - 1][key]) if _AUTO in figures else None


def _percent(read: Callable[[Figures], float | None]) -> Callable[[Figures], float | None]:
    def read_percent(figures: Figures) -> float | None:
        figure = read(figures)
        return None if figure is None else 100.0 * figure

    return read_percent


def _at_size(brokers: int, key: str) -> Callable[[Figures], float | None]:
    def read(figures: Figures) -> float | None:
        rows = (row for row in figures["sizes"] if row["brokers"] == brokers and not row.get("all_stalled"))
        row = next(rows, None)
        return None if row is None else float(row[key])

    return read


def _of_creation(partitions: int, key: str) -> Callable[[Figures], float | None]:
    def read(figures: Figures) -> float | None:
        row = next((row for row in figures["sizes"] if row["partitions"] == partitions), None)
        return None if row is None else float(row[key])

    return read


def _key(*path: str) -> Callable[[Figures], float | None]:
    def read(figures: Figures) -> float | None:
        value: Any = figures
        for key in path:
            value = value.get(key) if value is not None else None
        return None if value is None else float(value)

    return read


def _largest_collector(key: str) -> Callable[[Figures], float | None]:
    return lambda figures: float(max(figures["nodes"], key=lambda row: int(row["nodes"]))[key])


def _recovery(policy: str, key: str) -> Callable[[Figures], float | None]:
    def read(figures: Figures) -> float | None:
        total = next((total for total in figures["totals"] if total["policy"] == policy), None)
        return None if total is None else float(total[key])

    return read


def _worst_forecast(key: str, is_seasonal: bool | None = None) -> Callable[[Figures], float | None]:
    """Reads the largest ratio of all series half a day ahead; ``is_seasonal`` selects series."""

    def read(figures: Figures) -> float | None:
        rows = [row for row in figures["horizons"] if row["is_met"] is not None]
        return max(
            (float(row[key]) for row in rows if is_seasonal is None or row["is_seasonal"] == is_seasonal), default=None
        )

    return read


# By benchmark, in the order of the page.
CLAIMS: Mapping[str, tuple[Claim, ...]] = {
    "footprint": (
        Claim(
            "time from the tuner's start until its HTTP server reports a cycle, longest of 5, s",
            _key("ready_s_max"),
            at_most=3.0,
        ),
        Claim("memory of the tuner (RSS), MB", _key("rss_mb"), at_most=150.0),
        Claim("memory of a bare Python with the Kafka client (RSS), MB", _key("rss_mb_bare_client")),
        Claim("CPU use of an idle tuner and collector, cores", _key("idle_cores_tune_collect"), at_most=0.1),
        Claim("CPU use of an idle stream, cores", _key("idle_cores_stream")),
    ),
    "image": (
        Claim("size of the container image, MB", _key("size_mb"), at_most=900.0),
        Claim("time from `docker run` to the tuner's first cycle, longest of 5, s", _key("tune_s_max"), at_most=5.0),
        Claim(
            "time from `docker run` to the stream's first signals, longest of 3, s", _key("stream_s_max"), at_most=25.0
        ),
    ),
    "stall": (
        Claim("recall", _judge("recall"), at_least=0.99),
        Claim("precision", _judge("precision"), at_least=0.98),
        Claim("delay of detection, median, s", _judge("delay_s_median"), at_most=24.0),
        Claim("delay of detection, p95, s", _judge("delay_s_p95")),
        Claim("false alarms per hour of healthy moves", _judge("false_alarms_per_h"), at_most=0.1),
    ),
    "control": (
        Claim("duration ÷ optimum, mean of all scenarios", _law("ratio_mean"), at_most=1.25),
        Claim("duration ÷ optimum, worst scenario", _law("ratio_max"), at_most=1.5),
        Claim("5 s intervals over the latency objective, mean, %", _percent(_law("slo_5s_mean")), at_most=1.0),
        Claim("1 s intervals over the latency objective, mean, %", _percent(_law("slo_1s_mean")), at_most=3.0),
        Claim("settings written per broker and minute", _law("writes_mean")),
        Claim("`--auto`, first move: duration ÷ optimum, mean", _auto(1, "ratio_mean"), at_most=auto.RATIO_MEAN_MAX),
        Claim(
            "`--auto`, first move: duration ÷ optimum, worst scenario", _auto(1, "ratio_max"), at_most=auto.RATIO_MAX
        ),
        Claim(
            "`--auto`, first move: 5 s intervals over the objective, mean, %",
            _percent(_auto(1, "slo_5s_mean")),
            at_most=100.0 * auto.SLO_5S_MEAN_MAX,
        ),
        Claim(
            "`--auto`, first move: 5 s intervals over twice the objective, mean, %",
            _percent(_auto(1, "twice_5s_mean")),
            at_most=100.0 * auto.TWICE_MEAN_MAX,
        ),
        Claim(
            "`--auto`, third move: duration ÷ optimum, mean", _auto(3, "ratio_mean"), at_most=auto.LATER_RATIO_MEAN_MAX
        ),
        Claim(
            "`--auto`, third move: 5 s intervals over the objective, mean, %",
            _percent(_auto(3, "slo_5s_mean")),
            at_most=100.0 * auto.LATER_SLO_5S_MEAN_MAX,
        ),
    ),
    "scale": (
        Claim("decision cycle at 1,000 brokers, median, ms of CPU", _at_size(1_000, "cycle_ms"), at_most=250.0),
        Claim("decision cycle at 1,000 brokers, worst, ms of CPU", _at_size(1_000, "cycle_ms_max"), at_most=250.0),
        Claim("memory at 1,000 brokers (RSS), MB", _at_size(1_000, "rss_mb_peak"), at_most=300.0),
        Claim(
            "memory at 1,000 brokers if all moves stall at the same time (RSS), MB",
            _key("rescue", "rss_mb_peak"),
            at_most=300.0,
        ),
        Claim(
            "CPU per broker at 5,000 brokers ÷ CPU per broker at 1,000 brokers", _key("growth", "ratio"), at_most=1.3
        ),
    ),
    "forecast": (
        Claim(
            "error 12 h ahead ÷ error of persistence, worst seasonal series",
            _worst_forecast("ratio_to_persistence", True),
            at_most=SEASONAL_MAX,
        ),
        Claim(
            "error 12 h ahead ÷ error of persistence, worst other series",
            _worst_forecast("ratio_to_persistence", False),
            at_most=OTHER_MAX,
        ),
        Claim(
            "error 12 h ahead ÷ error of the best single expert, worst series",
            _worst_forecast("ratio_to_best_expert"),
            at_most=BEST_EXPERT_MAX,
        ),
    ),
    "eta": (
        Claim(
            "error of the estimated time of a 10 h move, median, %",
            _percent(_key("all", "error_median")),
            at_most=100.0 * ERROR_MAX,
        ),
        Claim("error of the estimated time of a 10 h move, p90, %", _percent(_key("all", "error_p90"))),
        Claim(
            "error of an estimate that assumes a constant load, median, %", _percent(_key("all", "error_as_now_median"))
        ),
        Claim("error of an estimate that assumes a constant load, p90, %", _percent(_key("all", "error_as_now_p90"))),
        Claim("moves whose true end is within the interval of the estimate, %", _percent(_key("all", "in_interval"))),
        Claim(
            "duration of a move that begins at the best time by forecast ÷ of a move that begins now, mean",
            _key("all", "best_start_ratio"),
        ),
        Claim(
            "duration of a move that begins at the truly best time ÷ of a move that begins now, mean",
            _key("all", "shortest_ratio"),
        ),
    ),
    "learn": (
        Claim(
            "share of the lasting changes that learn finds", _key("changes", "lasting", "recall"), at_least=RECALL_MIN
        ),
        Claim("precision of lasting changes", _key("changes", "lasting", "precision"), at_least=PRECISION_MIN),
        Claim(
            "false lasting changes per measure and week",
            _key("changes", "lasting", "false_per_week"),
            at_most=FALSE_PER_WEEK_MAX,
        ),
        Claim("share of the unusual hours that learn finds", _key("changes", "unusual", "recall")),
        Claim("precision of unusual hours", _key("changes", "unusual", "precision")),
        Claim("daily rebuild from five weeks at 1,000 brokers, s of CPU", _key("cost", "rebuild_total_s")),
        Claim("hourly update at 1,000 brokers, s of CPU", _key("cost", "hour_s")),
        Claim("memory of learn at 1,000 brokers (RSS), MB", _key("cost", "rss_mb")),
        Claim(
            "largest memory of learn in a further month ÷ its memory at the start of this month",
            _key("cost", "rss_growth"),
            at_most=RSS_GROWTH_MAX,
        ),
    ),
    "pipeline": (
        Claim(
            "throughput ÷ throughput of Spark that only parses",
            _key("throughput", "ratio_to_parse_only"),
            at_least=0.65,
        ),
        Claim("throughput of the whole pipeline, samples/s", _key("throughput", "samples_per_s")),
        Claim(
            "time from a published sample to the readable signal, p50, s",
            _key("live", "thorough", "latency_s_p50"),
            at_most=0.7,
        ),
        Claim(
            "time from a published sample to the readable signal, p99, s",
            _key("live", "thorough", "latency_s_p99"),
            at_most=1.5,
        ),
        Claim(
            "time from the start of the process to the first signal, s",
            _key("live", "thorough", "start_s"),
            at_most=12.0,
        ),
        Claim("memory of JVM and Python (RSS), MiB", _key("live", "thorough", "rss_mb"), at_most=1229.0),
        Claim(
            "throughput of two workers ÷ throughput of one JVM with two cores",
            _key("cluster", "cluster_per_core_to_local"),
            at_least=0.8,
        ),
        Claim("throughput of two workers ÷ throughput of one worker", _key("cluster", "growth_cluster")),
        Claim(
            "OpenTelemetry records read per second as protobuf ÷ as JSON",
            _key("otlp", "ratio_proto_to_json"),
            at_least=1.0,
        ),
    ),
    "history": (
        Claim("CPU time of a pass at 1,000 brokers, s", _key("pass_cpu_s"), at_most=PASS_CPU_S_MAX),
        Claim("history written per day at 1,000 brokers, MB", _key("day_mb"), at_most=DAY_MB_MAX),
        Claim("memory of the JVM after a pass at 1,000 brokers (RSS), MB", _key("jvm_rss_mb")),
    ),
    "collector": (
        Claim("longest round of 1,000 nodes, s", _largest_collector("round_s_max"), at_most=5.0),
        Claim("CPU use of the collector, cores", _largest_collector("core"), at_most=0.7),
        Claim("memory of the collector (RSS), MB", _largest_collector("rss_mb"), at_most=200.0),
    ),
    "metrics_page": (
        Claim("CPU time of an answer of /metrics at 1,000 brokers, ms", _at_size(1_000, "page_ms"), at_most=200.0),
        Claim("size of an answer of /metrics at 1,000 brokers, kB", _at_size(1_000, "page_kB"), at_most=2_000.0),
    ),
    "page": (
        Claim("time to the first view of the page, ms", _key("first_view_ms"), at_most=500.0),
        Claim("size of an update of the page, kB", _key("update_kb"), at_most=50.0),
        Claim("latency of the API under load, p99, ms", _key("p99_ms"), at_most=50.0),
        Claim("time of a decision cycle with viewers ÷ without viewers", _key("cycle_ratio"), at_most=1.1),
    ),
    "recovery": (
        Claim("time until in sync ÷ optimum, with `act`", _recovery(ACT, "ratio_to_optimum"), at_most=RATIO_MAX),
        Claim("time until in sync ÷ optimum, no throttle", _recovery(NONE, "ratio_to_optimum")),
        Claim(
            "produce p99 during the recovery, with `act`, ms", _recovery(ACT, "recovering_p99_ms"), at_most=OBJECTIVE_MS
        ),
        Claim("produce p99 during the recovery, no throttle, ms", _recovery(NONE, "recovering_p99_ms")),
        Claim("throttle settings left behind", _recovery(ACT, "keys_left"), at_most=0.0),
    ),
    "elections": (
        Claim("produce p99 after a broker's return, rheostat's elections, ms", _key("policies", "rheostat", "p99_ms")),
        Claim("produce p99 after a broker's return, Kafka's elections, ms", _key("policies", "kafka", "p99_ms")),
        Claim("produce p99 after a broker's return, rheostat's elections ÷ Kafka's elections", _key("ratio", "p99_ms")),
        Claim(
            "produce p99 of the worst ten seconds, rheostat's elections ÷ Kafka's elections",
            _key("ratio", "worst_p99_ms"),
        ),
        Claim("time until all leaders are back, rheostat's elections, s", _key("policies", "rheostat", "elections_s")),
        Claim("time until all leaders are back, Kafka's elections, s", _key("policies", "kafka", "elections_s")),
    ),
    "creation": (
        *(
            Claim(f"{size:,} partitions on a broker: {what}, s", _of_creation(size, key))
            for size in CREATION_SIZES
            for what, key in (
                ("time until the controller has answered", "controller_s"),
                ("time until all log directories exist", "log_dirs_s"),
                ("time of the deletion", "deletion_s"),
            )
        ),
        Claim("growth exponent of the controller's time", _key("exponent", "controller_s")),
        Claim("growth exponent of the time until all log directories exist", _key("exponent", "log_dirs_s")),
        Claim("growth exponent of the time of the deletion", _key("exponent", "deletion_s")),
    ),
}
