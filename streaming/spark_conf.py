"""Checks the operator's own Spark settings (``stream.spark_conf``), and adds them to rheostat's settings."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

# Settings that are lists: the operator's value is appended to rheostat's value, with this separator.
_JOINED_BY = {
    "spark.jars": ",",
    "spark.driver.extraClassPath": os.pathsep,
    "spark.driver.extraJavaOptions": " ",
    "spark.executor.extraJavaOptions": " ",
}
# Spark settings that the operator must not set, and the setting of rheostat that has the same effect.
_INSTEAD = {
    "spark.master": "stream.master",
    "spark.cores.max": "stream.cores",
    "spark.executor.instances": "stream.cores",
    "spark.executor.cores": "stream.executor_cores",
    "spark.executor.memory": "stream.executor_memory_mb",
    "spark.driver.memory": "stream.driver_memory_mb",
    "spark.driver.host": "stream.driver_host",
    "spark.local.dir": "the environment variable TMPDIR",
}
# Spark settings with which rheostat controls the computation of signals. With other values, signals would be wrong, or the
# checkpoint would not fit.
_OWN = re.compile(r"spark\.(sql|scheduler)\.")
# The operator's settings that take effect only when the JVM is started.
_FOR_LAUNCHER = ("spark.driver.", "spark.jars", "spark.kerberos.")
# The names of Spark's own ``spark.redaction.regex``, and the keys of Hadoop's file systems (``fs.azure.account.key.…``).
SECRET_NAME = re.compile(r"secret|password|token|access[.]?key|(account|private|encryption)[.]?key\b", re.IGNORECASE)
# An option of Java inside a value, such as ``-Djavax.net.ssl.keyStorePassword=…``.
_SECRET_VALUE = re.compile(r"(password|secret)=", re.IGNORECASE)
_HIDDEN = "**********"


def check_spark_conf(conf: Mapping[str, str]) -> None:
    """Checks the names.

    Raises:
        ValueError: a name is no setting of Spark, or the setting belongs to rheostat; the message says what to do.
    """
    for name in conf:
        if not name.startswith("spark."):
            raise ValueError(
                f"spark_conf has {name!r}, but every setting of Spark begins with 'spark.' (one of Hadoop with 'spark.hadoop.')"
            )
        if name in _INSTEAD:
            raise ValueError(f"spark_conf must not set {name}: use {_INSTEAD[name]}")
        if _OWN.match(name):
            raise ValueError(f"spark_conf must not set {name}: rheostat chooses it, because signals depend on it")


def with_spark_conf(settings: Mapping[str, str], conf: Mapping[str, str]) -> dict[str, str]:
    """Returns a session's settings, joined with the operator's settings. The operator's take precedence; lists are joined."""
    merged = dict(settings)
    for name, value in conf.items():
        separator = _JOINED_BY.get(name)
        merged[name] = f"{merged[name]}{separator}{value}" if separator is not None and merged.get(name) else value
    return merged


def launcher_settings(settings: Mapping[str, str], conf: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings for the command line of the JVM, which every user of this machine can read.

    The operator's settings may be secrets. So they are left out, unless they take effect only when the JVM starts. PySpark passes
    the left-out settings over its private connection to the JVM, before Spark starts there.

    Args:
        settings: the session's settings, as ``with_spark_conf`` returns them.
        conf: the operator's settings.
    """
    return {name: value for name, value in settings.items() if name not in conf or name.startswith(_FOR_LAUNCHER)}


def hide_secrets(conf: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings for display, without values that are or contain a secret."""
    return {
        name: _HIDDEN if SECRET_NAME.search(name) or _SECRET_VALUE.search(value) else value
        for name, value in conf.items()
    }
