"""Runs storms on a real cluster of three controllers and three brokers; tenants create and delete topics as fast as they may.

First the well-behaved tenants run alone. Their create latency is the reference for all rows, and the objective follows from it.
Then the same storm runs without quotas, with static quotas (a search: doubled while they keep the objective, halved while they miss
it, then in between), and with rheostat. If rheostat has less pressure than every static quota, smaller static quotas follow for
comparison. Rheostat's own stream produces the signals for all rows. Between two rows all quotas are restored and the storm's topics
deleted. Rheostat runs twice: started before the storm without any knowledge, and started into a storm that has overloaded the
controller for a while.

The well-behaved tenants are named in the settings, with a guaranteed rate. A static row has the same quota for all others.

All processes share two cores, so rheostat's load affects the tenants; in production it runs on other machines. Therefore it runs in
every row: where it does not act, a tuner runs in a dry run with the same probe rate.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.controllers.apart import Crowds, Feeling
from benchmarks.controllers.figures import (
    Row,
    jain,
    mean,
    percentile,
    presses_less_than_statics,
    settled_after_s,
    writes_per_tenant_min,
)
from benchmarks.controllers.storm import Request, StormTenant
from benchmarks.heaps import HEAP_MB, JAVA_OPTIONS
from benchmarks.links.watch import say
from benchmarks.memory import in_memory
from rheostat.config.settings import Settings, load_settings
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.orders import send
from rheostat.run.supervisor import Child, Supervisor, children_for
from streaming.shared.contract import ControllerSignal
from streaming.shared.contract.quotas import QuotaEntity
from streaming.shared.kafka import consumer
from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.kafka.quotas import QuotaClient
from tuner.control.mutation_quota.entity import DEFAULT
from tuner.core.controller import ControllerObjective, cluster_wide_measures
from tuner.core.controller_pressure import IdleBaselines, Pressure, learn_idle_baselines, worst_pressure
from tuner.runtime.observe.signals_reader import SignalReader

EVERYBODY = QuotaEntity(client_id=DEFAULT)
OURS = ("rheostat", "rheostat-late")
STORMS, CALM = 4, 2
# The objective is the create latency without a storm, as a p90. Below the time of one commit the latency contains little
# information, so a lower objective could not be controlled. With a tenth more, the worst latency of well-behaved tenants is 1.2 to
# 1.9 × that without a storm, and the bound is 1.5 ×.
FELT_RATIO = 1.0
# The worst delay of well-behaved tenants is the commit of another request before their own, in the forwarding queue of a broker
# (performance.md). The storm may use this share of a queue in addition. By line_model.py their latency is then 1.4 × that alone.
FORWARDING_BUSY_BESIDE = 0.045
# Guaranteed rate of the well-behaved tenants: they need 4/s, plus a quarter. Static rows give it to them too.
CALM_RATE_PER_S_MIN = 5.0
# Until the latency is known, so that the tuner in a dry run sends its probes as well.
_FELT_MS_MAX_START = 1_000.0
# On an idle cluster the lag is 0 to 520 ms, because the controller writes twice a second.
APPLY_LAG_MS_MAX, CALM_LAG_MS = 1_000.0, 600.0
# Four minutes of a static quota are measured, and eight of rheostat's and of the time alone, to which all rows are compared: with
# fewer samples a p99 is random. Two minutes suffice for values that are far off.
ALONE_S, NONE_S, STATIC_S, OURS_S = 525.0, 165.0, 285.0, 960.0
WARM_UP_S = 45.0  # Signals cover half a minute; by then storms delete as much as they create.
# The probe's variation is known after two minutes at one total rate, and a step of it takes one minute.
OURS_SETTLED_S = 480.0
LATE_S = 60.0  # How long a storm runs before rheostat starts, in the late row.
# The background rate is that of the last minute before the storm.
_QUIET_S, _QUIET_PER_S = 60.0, 1.0
_STATIC_FIRST = 10.0
_STEPS = 5
_BELOW = 2  # Further static quotas at most, if rheostat has less pressure than all static rows.
# By default Kafka removes deleted logs after a minute; the load of a row would then fall into the next one.
_SETTINGS = {"log.segment.delete.delay.ms": "1000"}
_READY_S_MAX = 240.0
_LOOK_S = 1.0
_AGE_S_MAX = 15.0


@dataclass
class Seen:
    """Values that were read once a second during a storm."""

    pressures: list[tuple[float, float]] = field(default_factory=list)
    signals: list[tuple[float, ControllerSignal]] = field(default_factory=list)
    writes: dict[str, list[float]] = field(default_factory=dict)
    felt_ms: list[tuple[float, float]] = field(default_factory=list)
    forwarding_busy_ratio: list[tuple[float, float]] = field(default_factory=list)
    worst: Pressure | None = None


class Bench:
    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._run = 0
        self._was_released = False
        self._rests: IdleBaselines = {}
        self.objective = ControllerObjective(create_probe_p90_ms_max=_FELT_MS_MAX_START)
        self._alone_p99_ms = 0.0
        self._static_least = _STATIC_FIRST
        self._quotas = QuotaClient(lab.kafka_settings(), "bench-quotas")
        self._config = lab.home / "rheostat.yaml"
        self._settings = self._configured(self.objective)
        self._consumer = consumer(lab.kafka_settings(), "bench-signals")
        topics = self._settings.topic_names()
        self._signals = SignalReader(self._consumer, topics.signals, "lab")
        self._topic = topics.signals
        self._felt: Feeling | None = None

    def close(self) -> None:
        if self._felt is not None:
            self._felt.stop()
        self._consumer.close(timeout_ms=2000)
        self._quotas.close()

    def measure(self, statics: int = _STEPS, *, late: bool = True) -> list[Row]:
        measuring = [child for child in children_for(self._config, dry_run=False) if child.name != "tune"]
        with self._supervised(measuring, "measure.log"):
            self._until(lambda: bool(self._signals.controllers), "signals of a controller")
            self._felt = Feeling(self._lab.kafka_settings(), self._topic)
            with self._supervised(self._tuner(dry_run=True), "looks-on.log"):
                self._alone()
                rows = [self._row("none", NONE_S, WARM_UP_S)]
                rows += self._statics(statics)
            rows.append(self._ours(OURS[0]))
            if late:
                rows.append(self._ours(OURS[1], LATE_S))
            self._resume()
            with self._supervised(self._tuner(dry_run=True), "looks-on-again.log"):
                for _ in range(_BELOW):
                    if presses_less_than_statics(rows, OURS):
                        rows.append(self._static(self._static_least / 2))
        return rows

    # -- the rows -----------------------------------------------------------------------------------------------------

    def _alone(self) -> None:
        seen, requests = self._blow((), ALONE_S)
        busy = [ratio for at_s, ratio in seen.forwarding_busy_ratio if at_s >= WARM_UP_S]
        took = [1000 * (r.ended_s - r.due_s) for r in self._calm(requests) if r.failed is None and r.due_s >= WARM_UP_S]
        at_rest_ms = self._felt.felt_ms() if self._felt is not None else None
        if at_rest_ms is None or not took or not busy:
            raise ClusterError("the well-behaved tenants alone: no creation was measured")
        self._alone_p99_ms = percentile(took, 99) or 0.0
        ordinary_ms = percentile(took, 50) or 0.0
        busy_ratio = mean(busy) or 0.0
        self.objective = ControllerObjective(
            apply_lag_ms_max=APPLY_LAG_MS_MAX,
            create_probe_p90_ms_max=FELT_RATIO * ordinary_ms,
            forwarding_busy_ratio_max=busy_ratio + FORWARDING_BUSY_BESIDE,
        )
        self._settings = self._configured(self.objective)
        say(
            f"alone: {ordinary_ms:.0f} ms, p99 {self._alone_p99_ms:.0f} ms, 9 of 10 felt within {at_rest_ms:.0f} ms; "
            f"a broker's line is taken for {100 * busy_ratio:.1f} % of the time"
        )

    def _statics(self, most: int) -> Iterator[Row]:
        """Yields a row for each static quota in partitions/s. Well-behaved tenants have at least their guaranteed rate."""
        low, high, each = 0.0, 0.0, _STATIC_FIRST
        for _ in range(most):
            row = self._static(each)
            yield row
            if row["pressure_p99"] is not None and row["pressure_p99"] <= 1:
                low = each
            else:
                high = each
            each = 2 * low if not high else (low + high) / 2

    def _static(self, each: float) -> Row:
        self._static_least = min(self._static_least, each)
        # Of the row that follows.
        calm = {QuotaEntity(client_id=name): max(each, CALM_RATE_PER_S_MIN) for name in self._calm_names(self._run + 1)}
        self._write({EVERYBODY: each} | calm)
        return self._row(
            f"static-{each:g}", STATIC_S, WARM_UP_S, lambda: self._write({EVERYBODY: None} | dict.fromkeys(calm))
        )

    def _ours(self, policy: str, late_s: float = 0.0) -> Row:
        self._until(self._nothing_done, "nobody to do anything")
        threading.Event().wait(_QUIET_S)
        tune = self._tuner(dry_run=False)
        with ExitStack() as stack:

            def begin() -> None:
                self._resume()
                stack.enter_context(self._supervised(tune, f"{policy}.log"))

            if late_s:
                row = self._row(policy, late_s + OURS_S, late_s + OURS_SETTLED_S, self._release, (late_s, begin))
            else:
                begin()
                # A new client-id gets the quota of <default>.
                self._until(lambda: EVERYBODY in self._quotas.mutation_quotas(), "the tuner to keep a default")
                row = self._row(policy, OURS_S, OURS_SETTLED_S, self._release)
        return row | {"left_behind": len(self._quotas.mutation_quotas())}

    def _nothing_done(self) -> bool:
        oldest_ms = round(time.time() * 1000 - _AGE_S_MAX * 1000)
        done = [s.mutation_rate_per_s or 0.0 for s in self._signals.tenants.values() if s.sampled_at_ms >= oldest_ms]
        return sum(done) < _QUIET_PER_S

    def _resume(self) -> None:
        """Ends the release with which a row of rheostat ends."""
        if self._was_released:
            send.submit(self._settings, send.resume)
            self._was_released = False

    def _release(self) -> None:
        send.submit(self._settings, send.release)
        self._was_released = True
        self._until(lambda: not self._quotas.mutation_quotas(), "every quota of ours to be taken back")

    def _row(
        self,
        policy: str,
        seconds: float,
        settled_s: float,
        after: Callable[[], None] | None = None,
        meanwhile: tuple[float, Callable[[], None]] | None = None,
    ) -> Row:
        """Runs one row.

        Args:
            after: restores the quotas, before the remaining topics of the storm are deleted.
            meanwhile: actions during the storm, with their times.
        """
        self._run += 1
        storms = [
            StormTenant(
                f"storm-{self._run}-{i}",
                10,
                topics_per_request=5,
                partitions=4,
                replication_factor=3,
                topics_max=50,
                connections=2,
                honours=i % 2 == 0,
            )
            for i in range(STORMS)
        ]
        seen, requests = self._blow(storms, seconds, meanwhile)
        if after is not None:
            after()
        self._clear(storms)
        # Who has failed, or still waits when the storm is over, waited for longer than the storm.
        calm_ms = percentile(
            [
                1000 * (r.ended_s - r.due_s if r.failed is None else seconds)
                for r in self._calm(requests)
                if r.due_s >= settled_s
            ],
            99,
        )
        done = [
            sum(r.mutations for r in requests if r.client_id == s.client_id and settled_s <= r.ended_s <= seconds)
            for s in storms
        ]
        # What all tenants together create and delete, as in the simulation: the well-behaved ones press as well.
        all_done = sum(r.mutations for r in requests if settled_s <= r.ended_s <= seconds)
        settled = [(at_s, ratio) for at_s, ratio in seen.pressures if at_s >= settled_s]
        row: Row = {
            "where": "real",
            "policy": policy,
            "pressure_p99": percentile([ratio for _, ratio in settled], 99),
            "pressed_most_by": str(seen.worst),
            "queue_time_p99_ms": max(
                (
                    s.event_queue_time_p99_ms
                    for at_s, s in seen.signals
                    if at_s >= settled_s and s.event_queue_time_p99_ms is not None
                ),
                default=None,
            ),
            "idle_ratio_min": min(
                (s.idle_ratio for at_s, s in seen.signals if at_s >= settled_s and s.idle_ratio is not None),
                default=None,
            ),
            "forwarding_busy_ratio": mean([busy for at_s, busy in seen.forwarding_busy_ratio if at_s >= settled_s]),
            "create_felt_p99_ms": percentile([felt for at_s, felt in seen.felt_ms if at_s >= settled_s], 99),
            "well_behaved_create_p99_ms": calm_ms,
            "well_behaved_ratio": None if calm_ms is None else calm_ms / self._alone_p99_ms,
            "goodput_partitions_per_s": all_done / (seconds - settled_s),
            "storms_partitions_per_s": sum(done) / (seconds - settled_s),
            "jain_index": jain(done),
            "time_to_settle_s": settled_after_s(seen.pressures, meanwhile[0] if meanwhile is not None else 0.0),
            "writes_per_tenant_min": writes_per_tenant_min(seen.writes, settled_s),
            "failed_requests": sum(r.failed is not None for r in requests),
        }
        say(
            " ".join(
                f"{key}={value:.3g}" if isinstance(value, float) else f"{key}={value}" for key, value in row.items()
            )
        )
        return row

    def _calm(self, requests: Sequence[Request]) -> list[Request]:
        return [r for r in requests if r.creates and r.client_id.startswith("calm-")]

    # -- the storm ----------------------------------------------------------------------------------------------------

    def _blow(
        self, storms: Sequence[StormTenant], seconds: float, meanwhile: tuple[float, Callable[[], None]] | None = None
    ) -> tuple[Seen, list[Request]]:
        calm = [
            StormTenant(name, 1, partitions=2, replication_factor=3, topics_max=4, connections=2, varies=True)
            for name in self._calm_names(self._run)
        ]
        seen, stands, ahead = Seen(), self._quotas.mutation_quotas(), [meanwhile] if meanwhile is not None else []

        def look(now_s: float) -> None:
            nonlocal stands
            if ahead and now_s >= ahead[0][0]:
                ahead.pop()[1]()
            stands = self._look(now_s, seen, stands)

        crowds = Crowds(self._lab.bootstrap_servers.split(","), (storms, calm), seconds)
        return seen, crowds.blown(_LOOK_S, look)

    def _calm_names(self, run: int) -> list[str]:
        return [f"calm-{run}-{i}" for i in range(CALM)]

    def _look(self, now_s: float, seen: Seen, stands: Mapping[QuotaEntity, float]) -> Mapping[QuotaEntity, float]:
        self._signals.poll()
        now_ms = round(time.time() * 1000)
        active = [
            s for s in self._signals.controllers.values() if s.active and now_ms - s.sampled_at_ms < _AGE_S_MAX * 1000
        ]
        if active:
            newest = max(active, key=lambda s: s.sampled_at_ms)
            felt_ms = self._felt.felt_ms() if self._felt is not None else None
            beside = cluster_wide_measures(
                self._signals.controllers, self._signals.brokers, now_ms, _AGE_S_MAX, felt_ms
            )
            if felt_ms is not None:
                seen.felt_ms.append((now_s, felt_ms))
            if beside.forwarding_busy_ratio is not None:
                seen.forwarding_busy_ratio.append((now_s, beside.forwarding_busy_ratio))
            if not seen.signals or seen.signals[-1][1].sampled_at_ms != newest.sampled_at_ms:
                seen.signals.append((now_s, newest))
                self._rests = learn_idle_baselines(beside, self._rests)
            found = worst_pressure(newest, beside, self.objective, self._rests)
            if found is not None:
                seen.pressures.append((now_s, found.ratio))
                seen.worst = found if seen.worst is None or found.ratio > seen.worst.ratio else seen.worst
        try:
            found_now = self._quotas.mutation_quotas()
        except ClusterError:
            return stands
        for entity in found_now.keys() | stands.keys():
            if found_now.get(entity) != stands.get(entity):
                seen.writes.setdefault(str(entity), []).append(now_s)
        return found_now

    def _clear(self, tenants: Sequence[StormTenant]) -> None:
        """Deletes the remaining topics of the tenants until no broker shows one; a lagging broker still shows deleted ones."""
        prefixes = ("storm-calm-", *(f"storm-{tenant.client_id}-" for tenant in tenants))
        with self._lab.admin("bench-clears") as admin:

            def none_is_left() -> bool:
                names = [name for name in admin.list_topics() if name.startswith(prefixes)]
                for first in range(0, len(names), 50):
                    admin.delete_topics(names[first : first + 50], timeout_ms=60_000, raise_errors=False)
                return not names

            self._until(none_is_left, "the storm's topics to be gone")
        # What the brokers still have to apply is this row's, and not the next one's.
        self._until(self._calm_again, "brokers to be up to date")

    def _calm_again(self) -> bool:
        now_ms = round(time.time() * 1000)
        lag_ms = cluster_wide_measures(
            self._signals.controllers, self._signals.brokers, now_ms, _AGE_S_MAX
        ).apply_lag_ms
        return lag_ms is not None and lag_ms < CALM_LAG_MS

    # -- its surroundings ---------------------------------------------------------------------------------------------

    def _configured(self, objective: ControllerObjective) -> Settings:
        self._config.write_text(
            lab_config(
                self._lab,
                mutation_quota={
                    "default_entity": "client-id",
                    "objective": {
                        "apply_lag_ms_max": objective.apply_lag_ms_max,
                        "create_probe_p90_ms_max": objective.create_probe_p90_ms_max,
                        "forwarding_busy_ratio_max": objective.forwarding_busy_ratio_max,
                    },
                    "tenants": [
                        {"client_id": "bench-*", "exempt": True},
                        {"client_id": "calm-*", "rate_per_s_min": CALM_RATE_PER_S_MIN},
                    ],
                },
            )
        )
        return load_settings(self._config, {})

    def _write(self, rates: Mapping[QuotaEntity, float | None]) -> None:
        for entity, refused in self._quotas.alter_mutation_quotas(rates).items():
            if refused is not None:
                raise ClusterError(f"{entity}: {refused}")
        wanted = {entity: rate for entity, rate in rates.items() if rate is not None}
        self._until(lambda: self._quotas.mutation_quotas() == wanted, f"quotas {wanted}")

    def _tuner(self, *, dry_run: bool) -> list[Child]:
        return [child for child in children_for(self._config, dry_run=dry_run) if child.name == "tune"]

    @contextmanager
    def _supervised(self, children: Sequence[Child], log: str) -> Iterator[None]:
        supervisor = Supervisor(children, log_to=self._lab.home / "logs" / log)
        done = threading.Event()
        # Children die with the thread that made them, so they are made, looked after and stopped by one.
        keeper = threading.Thread(target=supervisor.run, args=(done,), name=log, daemon=True)
        keeper.start()
        try:
            yield
        finally:
            done.set()
            keeper.join(timeout=60)

    def _until(self, probe: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + _READY_S_MAX
        while not probe():
            if time.monotonic() > deadline_s:
                raise ClusterError(f"not within {_READY_S_MAX:.0f} s: {what}")
            self._signals.poll()
            threading.Event().wait(0.2)


def measure(statics: int, keep: Path | None = None, *, late: bool = True) -> list[Row]:
    """Returns the rows.

    Args:
        late: rheostat also starts during a storm.
        keep: folder to which the logs are copied.
    """
    spec = LabSpec(
        brokers=3,
        controllers=3,
        heap_mb=HEAP_MB,
        java_options=JAVA_OPTIONS,
        settings=_SETTINGS,
        folder=in_memory(),
    )
    with Lab(spec) as lab:
        bench = Bench(lab)
        try:
            return bench.measure(statics, late=late)
        finally:
            bench.close()
            if keep is not None:
                for log in (lab.home / "logs").glob("*.log"):
                    (keep / log.name).write_text(log.read_text(errors="replace"))
