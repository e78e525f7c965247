"""The first line of a Java failure that Py4J wraps."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from streaming.failure_causes import first_line


def test_first_line_of_java_failure_is_its_innermost_cause(spark: SparkSession) -> None:
    java = spark._jvm.java  # type: ignore[union-attr]
    with pytest.raises(Py4JJavaError) as caught:
        java.util.Optional.empty().get()
    assert str(caught.value).startswith("An error occurred while calling")
    assert first_line(caught.value) == "java.util.NoSuchElementException: No value present"

    disk = java.io.IOException("disk full\nand more")
    with pytest.raises(Py4JJavaError) as caught:
        java.util.concurrent.CompletableFuture.failedFuture(java.lang.RuntimeException("task 0", disk)).get()
    assert first_line(caught.value) == "java.io.IOException: disk full"
