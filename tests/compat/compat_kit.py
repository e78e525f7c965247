"""The choice of versions, and names that the tests share."""

from __future__ import annotations

import os

from rheostat.jvm.kafka_versions import check_kafka_version, kafka_versions

STRANGER = "stranger"  # A user without any right.


def chosen_versions() -> list[str]:
    named = os.environ.get("RHEOSTAT_COMPAT_VERSIONS", "")
    if named == "all":
        return list(kafka_versions())
    return [check_kafka_version(one) for one in named.split()] or [kafka_versions()[0], kafka_versions()[-1]]
