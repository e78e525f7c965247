"""One Spark session for all tests of this folder, because its start is slow; hypothesis uses the same examples in every run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from rheostat.jvm.kernel import stream_jars
from streaming.session import SparkOptions, spark_session


def pytest_configure(config: pytest.Config) -> None:
    """Registers a profile with fixed examples, unless --hypothesis-seed is given."""
    settings.register_profile("streaming", derandomize=config.getoption("--hypothesis-seed", None) is None)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = spark_session(stream_jars(), SparkOptions("tests", tmp_path_factory.mktemp("spark"), cores=2))
    yield session
    session.stop()
