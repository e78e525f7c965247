"""Caches PySpark's look-ups of Java functions, which makes building the pipeline faster.

To create an expression with ``functions.when``, PySpark first asks the JVM for ``functions`` and then for its member ``when``.
These are two round trips besides the round trip that creates the expression. The pipeline has thousands of expressions, and the
start of the stream waits until they are created.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark import SparkContext

# Java classes that PySpark creates expressions with.
_CLASSES = ("functions", "org.apache.spark.sql.functions", "PythonSQLUtils")
_LIST_OF_MAX = 10  # Java's List.of takes more than ten elements as an array only.


class _CachedClass:
    """A Java class whose members are looked up once."""

    def __init__(self, java_class: Any) -> None:
        self._java_class = java_class

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._java_class, name)
        setattr(self, name, member)
        return member


class _CachedPythonUtils(_CachedClass):
    """``PythonUtils``, with lists passed to Java in one call instead of one call per element."""

    def __init__(self, java_class: Any, java_list: Any) -> None:
        super().__init__(java_class)
        self._list_of = java_list.of
        self._empty = java_class.toSeq(java_list.of())

    def toSeq(self, elements: Sequence[Any]) -> Any:  # noqa: N802 - Spark's name
        if not elements:
            return self._empty
        java_list = self._list_of(*elements) if len(elements) <= _LIST_OF_MAX else elements
        return self._java_class.toSeq(java_list)


def cache_lookups() -> None:
    """Installs the caches for the JVM of the running session."""
    jvm = SparkContext._jvm
    assert jvm is not None, "no session is running"
    for name in _CLASSES:
        # Py4J looks up missing attributes only.
        if name not in vars(jvm):
            setattr(jvm, name, _CachedClass(getattr(jvm, name)))
    if "PythonUtils" not in vars(jvm):
        jvm.PythonUtils = _CachedPythonUtils(jvm.PythonUtils, jvm.java.util.List)
