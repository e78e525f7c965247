"""Java functions that Python has looked up once stay looked up.

PySpark asks the JVM anew, for every call, what ``functions`` is and what ``functions.when`` is: two round trips beside the
one that makes the expression. Building the pipeline makes thousands of expressions, and a start waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark import SparkContext

# What expressions are made with, as PySpark names them.
_CLASSES = ("functions", "org.apache.spark.sql.functions", "PythonSQLUtils")
_LIST_OF_MAX = 10  # Beyond it Java wants an array.


class _Remembered:
    """A Java class whose members are asked for once."""

    def __init__(self, java_class: Any) -> None:
        self._java_class = java_class

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._java_class, name)
        setattr(self, name, member)
        return member


class _Sequences(_Remembered):
    """``PythonUtils``. A list is handed over in one call, and not in one for itself and one for each element."""

    def __init__(self, java_class: Any, java_list: Any) -> None:
        super().__init__(java_class)
        self._list_of = java_list.of
        self._nothing = java_class.toSeq(java_list.of())

    def toSeq(self, elements: Sequence[Any]) -> Any:  # noqa: N802 - Spark's name
        if not elements:
            return self._nothing  # Every ``let`` begins with it.
        handed = self._list_of(*elements) if len(elements) <= _LIST_OF_MAX else elements
        return self._java_class.toSeq(handed)


def remember() -> None:
    """From now on, for the JVM of the running session."""
    jvm = SparkContext._jvm
    assert jvm is not None, "no session is running"
    for name in _CLASSES:
        # An attribute that is there is not asked for.
        if name not in vars(jvm):
            setattr(jvm, name, _Remembered(getattr(jvm, name)))
    if "PythonUtils" not in vars(jvm):
        jvm.PythonUtils = _Sequences(jvm.PythonUtils, jvm.java.util.List)
