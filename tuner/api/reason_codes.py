"""The reason codes of all controllers, from the catalogues that the reference page is generated from."""

from __future__ import annotations

from tuner.control.cordon.reason_texts import CORDON_REASON_TEXTS
from tuner.control.cruise_control.reason_texts import CRUISE_CONTROL_REASON_TEXTS
from tuner.control.leadership.reason_texts import LEADERSHIP_REASON_TEXTS
from tuner.control.log_dir.reason_texts import LOG_DIR_REASON_TEXTS
from tuner.control.mutation_quota.reason_texts import QUOTA_REASON_TEXTS
from tuner.control.reassignment.reason_texts import (
    CONCURRENCY_REASON_TEXTS,
    STEP_OUTCOME_REASON_TEXTS,
    STEP_REASON_TEXTS,
)
from tuner.control.replication_lag.reason_texts import LAG_REASON_TEXTS
from tuner.control.throttle.reason_texts import REASON_TEXTS

CATALOGUES = (
    REASON_TEXTS,
    QUOTA_REASON_TEXTS,
    CONCURRENCY_REASON_TEXTS,
    STEP_REASON_TEXTS,
    STEP_OUTCOME_REASON_TEXTS,
    LOG_DIR_REASON_TEXTS,
    CORDON_REASON_TEXTS,
    CRUISE_CONTROL_REASON_TEXTS,
    LEADERSHIP_REASON_TEXTS,
    LAG_REASON_TEXTS,
)
# Controllers share some codes, such as `paused`.
REASON_CODES: tuple[str, ...] = tuple(sorted({reason.value for texts in CATALOGUES for reason in texts}))
