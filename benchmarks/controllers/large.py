"""Measures the cost of a mutation quota cycle with a thousand tenants on a large cluster, and the distance to the optimum.

The cost is the CPU time of the process for the whole cycle, garbage collection included: view, policy, journal records (encoded but
not sent) and status store. The optimum is the exact max–min share. Its level is found by bisection here, independently of the code
under test.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from streaming.shared.contract import BrokerSignal, ControllerSignal, TenantSignal
from streaming.shared.contract.quotas import QuotaEntity
from tuner.api.quota_status_store import QuotaStatusStore
from tuner.control.mutation_quota.model import MutationPolicy, TenantRule
from tuner.control.mutation_quota.state import MutationMemory
from tuner.control.mutation_quota.tenant_rules import demand_per_s
from tuner.core.operator_orders import Orders
from tuner.core.throttle_limits import StallLimits, ThrottleLimits
from tuner.journal.entries import Entry, encode_entry
from tuner.journal.input_log import InputLog
from tuner.journal.settings_snapshot import SettingsSnapshot
from tuner.runtime.clock import Clock
from tuner.runtime.gc_tuning import tune_gc
from tuner.runtime.mutation_quota.actuator import Outcome, Rates
from tuner.runtime.mutation_quota.loop import MutationQuotaConfig, MutationQuotaController, MutationQuotaPorts
from tuner.runtime.mutation_quota.recorder import MutationQuotaRecorder

CYCLE_MS_MAX = 100.0
OFF_OPTIMUM_MAX = 0.05
TENANTS, BROKERS = 1_000, 2_000
CYCLES = 40
CYCLE_S = 5.0
_EPOCH_S = 1_700_000_000.0

T = TypeVar("T")


class _Cluster:
    """Quotas and signals of a thousand tenants: two thirds of them storm, the others send little."""

    def __init__(self) -> None:
        self.rates: dict[QuotaEntity, float] = {}
        self.brokers: dict[int, BrokerSignal] = {}
        self.controllers: dict[int, ControllerSignal] = {}
        self.tenants: dict[Any, TenantSignal] = {}
        self.latest = Orders()

    def read(self) -> dict[QuotaEntity, float]:
        return dict(self.rates)

    def write(self, rates: Rates) -> Outcome:
        self.rates |= {entity: rate for entity, rate in rates.items() if rate is not None}
        return dict.fromkeys(rates)

    def speak(self, now_s: float) -> None:
        at_ms = round(now_s * 1000)
        self.brokers = {
            i: BrokerSignal("large", i, at_ms, at_ms, 6, 1.0, metadata_lag_ms=float(i % 50)) for i in range(BROKERS)
        }
        self.controllers = {
            1: ControllerSignal(
                "large",
                1,
                at_ms,
                at_ms,
                6,
                1.0,
                active=1.0,
                idle_ratio=0.6,
                event_queue_time_mean_ms=20.0,
                partitions=200_000.0,
                topics=20_000.0,
                heartbeats_timed_out_per_s=0.0,
            )
        }
        for i in range(TENANTS):
            user = f"team-{i % 10}-{i}"
            self.tenants[(1, user, None)] = TenantSignal(
                "large",
                1,
                at_ms,
                at_ms,
                1,
                1.0,
                user=user,
                mutation_rate_per_s=i % 7 / 10,
                tokens=-1.0 if i % 3 else 1e9,
            )


class _Inline:
    def start(self, call: Callable[[], T], /) -> Future[T]:
        done: Future[T] = Future()
        done.set_result(call())
        return done


class _Journal:
    def __init__(self, inputs: InputLog) -> None:
        self._inputs = inputs
        self.written = 0  # Bytes.

    def write(
        self, entries: Sequence[Entry] = (), *, other_records: Mapping[bytes, bytes | None] | None = None
    ) -> None:
        for entry in entries:
            self.written += len(encode_entry(entry))
        self.written += sum(len(value or b"") for value in (other_records or {}).values())
        self.written += sum(map(len, self._inputs.take_records()))


def measure() -> dict[str, Any]:
    tune_gc()
    rules = tuple(TenantRule(user=f"team-{i}-*", weight=1.0 + i % 3) for i in range(10))
    policy = MutationPolicy(rules=rules)
    cluster, clock = _Cluster(), [_EPOCH_S]

    def now() -> float:
        return clock[0]

    memory = MutationMemory()
    film = InputLog(
        SettingsSnapshot(ThrottleLimits(rate_bytes_per_s_max=100e6), StallLimits()),
        run="large",
        program="benchmark",
        wall_clock=now,
    )
    ports = MutationQuotaPorts(
        quotas=cluster,
        caller=_Inline(),
        signals=cluster,
        orders=cluster,
        write_refusal=lambda: None,
        observer=QuotaStatusStore("large"),
        inputs=film,
    )
    recorder = MutationQuotaRecorder(_Journal(film), "large", memory, Clock(now, now), dry_run=False)
    config = MutationQuotaConfig(policy=policy, cycle_s=CYCLE_S)
    loop = MutationQuotaController(ports, config, Clock(now, now), recorder)
    spent = []
    for _ in range(CYCLES):
        cluster.speak(now())
        began = time.process_time()
        for _ in range(3):  # It looks, it decides and writes, it is answered.
            loop.tick()
        spent.append(1000 * (time.process_time() - began))
        clock[0] += CYCLE_S
    return {
        "where": "large",
        "tenants": TENANTS,
        "brokers": BROKERS,
        "cycle_ms": round(statistics.median(spent), 1),
        "cycle_ms_max": round(max(spent[1:]), 1),
        "first_ms": round(spent[0], 1),
        "off_optimum_max": round(_off_optimum(loop.recorder.memory, cluster, policy), 4),
    }


def _off_optimum(memory: MutationMemory, cluster: _Cluster, policy: MutationPolicy) -> float:
    """Returns the largest relative distance between a quota and its exact share, among tenants that could use more."""
    assert memory.total is not None
    weights = {tenant: 1.0 + int((tenant.user or "").split("-")[1]) % 3 for tenant in memory.tenants}
    wants = {tenant: demand_per_s(state, policy.limits) for tenant, state in memory.tenants.items()}
    floor = policy.limits.tenant_rate_per_s_min

    def dealt(height: float) -> dict[Any, float]:
        return {t: min(wants[t], max(min(floor, wants[t]), weights[t] * height)) for t in wants}

    low, high = 0.0, memory.total.rate_per_s
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if math.fsum(dealt(middle).values()) < memory.total.rate_per_s else (low, middle)
    exact = dealt(low)
    return max(
        abs(cluster.rates[tenant.entity] / exact[tenant] - 1) for tenant, want in wants.items() if want == math.inf
    )


def missed(row: dict[str, Any]) -> list[str]:
    said = []
    if row["cycle_ms_max"] > CYCLE_MS_MAX:
        said.append(f"large: the worst cycle takes {row['cycle_ms_max']} ms ({CYCLE_MS_MAX:g})")
    if row["off_optimum_max"] > OFF_OPTIMUM_MAX:
        said.append(
            f"large: a share is {100 * row['off_optimum_max']:.1f} % off the optimum ({100 * OFF_OPTIMUM_MAX:g})"
        )
    return said
