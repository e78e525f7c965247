"""The operator's Spark settings: lists are joined with those of rheostat, other values replace them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streaming import session
from streaming.session import SparkCluster, SparkOptions
from streaming.spark_conf import check_spark_conf, hide_secrets, launcher_settings, with_spark_conf


def test_lists_are_joined_and_other_values_replaced() -> None:
    own = {"spark.jars": "/a.jar", "spark.ui.enabled": "false", "spark.driver.extraClassPath": "/a.jar"}
    conf = {"spark.jars": "/b.jar", "spark.ui.enabled": "true", "spark.driver.extraClassPath": "/b.jar", "spark.x": "1"}
    merged = with_spark_conf(own, conf)
    assert merged == {
        "spark.jars": "/a.jar,/b.jar",
        "spark.ui.enabled": "true",
        "spark.driver.extraClassPath": f"/a.jar{os.pathsep}/b.jar",
        "spark.x": "1",
    }
    assert with_spark_conf({}, {"spark.jars": "/b.jar"}) == {"spark.jars": "/b.jar"}


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("spark://a:7077", {"spark.cores.max": "5"}),
        ("yarn", {"spark.executor.instances": "3"}),
        ("k8s://https://a:6443", {"spark.executor.instances": "3"}),
    ],
)
def test_each_master_gets_the_cores_in_its_own_setting(master: str, expected: dict[str, str]) -> None:
    settings = SparkCluster(master, "h", executor_cores=2).settings([], cores=5)
    assert {
        name: settings[name] for name in ("spark.cores.max", "spark.executor.instances") if name in settings
    } == expected


def test_no_own_setting_can_be_replaced_unnoticed(tmp_path: Path) -> None:
    """A setting of rheostat is either joined, refused, or one that changes no signal."""
    options = SparkOptions("a", tmp_path, cores=2, cluster=SparkCluster("spark://a:7077", "h"))
    own = session._session_settings([tmp_path / "a.jar"], options) | session._COMMON_SETTINGS
    replaceable = set()
    for name in own:
        try:
            check_spark_conf({name: "x"})
        except ValueError:
            continue
        if with_spark_conf(own, {name: "x"})[name] == "x":
            replaceable.add(name)
    assert replaceable == {
        "spark.app.name",
        "spark.driver.bindAddress",
        "spark.python.sql.dataFrameDebugging.enabled",
        "spark.ui.enabled",
        "spark.ui.showConsoleProgress",
    }


def test_command_line_has_only_settings_that_the_launcher_needs() -> None:
    own = {"spark.executor.extraJavaOptions": "-Xss8m", "spark.driver.memory": "1g", "spark.ui.enabled": "false"}
    conf = {
        "spark.authenticate.secret": "hush",
        "spark.executor.extraJavaOptions": "-Dpassword=hush",
        "spark.hadoop.fs.s3a.secret.key": "hush",
        "spark.driver.extraClassPath": "/b.jar",
        "spark.jars.packages": "a:b:1",
    }
    assert launcher_settings(with_spark_conf(own, conf), conf) == {
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.driver.extraClassPath": "/b.jar",
        "spark.jars.packages": "a:b:1",
    }


@pytest.mark.parametrize(
    ("variable", "option"),
    [
        ("/etc/k.conf", '"-Djava.security.krb5.conf=/etc/k.conf"'),
        ("/a b:/c", '"-Djava.security.krb5.conf=/a b"'),
        ("", ""),
    ],
)
def test_every_jvm_gets_the_kerberos_file_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, option: str
) -> None:
    monkeypatch.setenv("KRB5_CONFIG", variable)
    options = SparkOptions("a", tmp_path, cores=2, cluster=SparkCluster("spark://a:7077", "h"))
    settings = session._session_settings([], options)
    for name in ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"):
        assert option in settings[name]
        assert ("krb5" in settings[name]) is bool(option)
    assert option in session.submit_settings([], options)["spark.driver.extraJavaOptions"]


@pytest.mark.parametrize(
    ("name", "value", "hidden"),
    [
        ("spark.authenticate.secret", "hush", True),
        ("spark.hadoop.fs.azure.account.key.store.dfs.core.windows.net", "hush", True),
        ("spark.hadoop.fs.s3a.encryption.key", "hush", True),
        ("spark.hadoop.fs.gs.auth.service.account.private.key", "hush", True),
        ("spark.driver.extraJavaOptions", "-Djavax.net.ssl.keyStorePassword=hush", True),
        ("spark.executor.extraJavaOptions", "-Dapp.secret=hush -Xss8m", True),
        ("spark.executor.extraJavaOptions", "-Xss8m", False),
        ("spark.io.encryption.keySizeBits", "256", False),
        ("spark.kerberos.keytab", "/etc/a.keytab", False),
    ],
)
def test_values_that_are_or_contain_secrets_are_hidden(name: str, value: str, hidden: bool) -> None:
    assert hide_secrets({name: value}) == {name: "**********" if hidden else value}
