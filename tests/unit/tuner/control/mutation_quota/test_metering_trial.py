"""Tests when `rheostat quotas measure` sets its metering quota, and when it is a leftover."""

from __future__ import annotations

import pytest

from tuner.control.mutation_quota.default_quota import EVERY_PAIR, UNLIMITED_PER_S
from tuner.control.mutation_quota.entity import QuotaEntity
from tuner.control.mutation_quota.metering_trial import TRIAL_PER_S, MeteringPlan, is_leftover, plan_metering
from tuner.core.operator_orders import QuotaTrial, QuotaTrialKind

OWN, ALICE = {EVERY_PAIR: TRIAL_PER_S}, {QuotaEntity("alice"): 5.0}
TRIAL = QuotaTrial(QuotaTrialKind.MEASURE, at_ms=1_000, until_ms=9_000, by="ops")


@pytest.mark.parametrize(
    ("quotas", "trial", "now_ms", "plan"),
    [
        ({}, None, 5_000, MeteringPlan.SET),
        ({}, TRIAL, 5_000, MeteringPlan.SET),
        (ALICE, None, 5_000, MeteringPlan.ONLY_READ),
        ({EVERY_PAIR: UNLIMITED_PER_S}, None, 5_000, MeteringPlan.ONLY_READ),
        (OWN, TRIAL, 5_000, MeteringPlan.REFUSE),
        (OWN, TRIAL, 9_000, MeteringPlan.TAKE_OVER),
        (OWN | ALICE, None, 5_000, MeteringPlan.TAKE_OVER),
    ],
)
def test_plan_depends_on_quotas_and_record(
    quotas: dict[QuotaEntity, float], trial: QuotaTrial | None, now_ms: int, plan: MeteringPlan
) -> None:
    assert plan_metering(quotas, trial, now_ms) is plan
    assert is_leftover(quotas, trial, now_ms) == (plan is MeteringPlan.TAKE_OVER)
