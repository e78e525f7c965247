"""Java functions that Python has looked up once stay looked up.

PySpark asks the JVM anew, for every call, what ``functions`` is and what ``functions.when`` is: two round trips beside the
one that makes the expression. Building the pipeline makes thousands of expressions, and a start waits for it.
"""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext

# What expressions are made with, as PySpark names them.
_CLASSES = ("functions", "org.apache.spark.sql.functions", "PythonSQLUtils", "PythonUtils")


class _Remembered:
    """A Java class whose members are asked for once."""

    def __init__(self, java_class: Any) -> None:
        self._java_class = java_class

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._java_class, name)
        setattr(self, name, member)
        return member


def remember() -> None:
    """From now on, for the JVM of the running session."""
    jvm = SparkContext._jvm
    assert jvm is not None, "no session is running"
    for name in _CLASSES:
        # An attribute that is there is not asked for.
        if name not in vars(jvm):
            setattr(jvm, name, _Remembered(getattr(jvm, name)))
