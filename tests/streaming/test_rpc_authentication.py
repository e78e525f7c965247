"""Spark's RPC accepts its own processes only: it deserializes Java objects, and every local user can reach its port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

WAIT = "10s"


def jvm_of(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm


@contextmanager
def client_of(spark: SparkSession, *, authenticates: bool) -> Iterator[Any]:
    """An RPC environment as in another process; one that authenticates uses the secret of this JVM."""
    jvm = jvm_of(spark)
    conf = jvm.org.apache.spark.SparkConf(False)
    conf.set("spark.rpc.askTimeout", WAIT).set("spark.rpc.lookupTimeout", WAIT)
    if authenticates:
        conf.set("spark.authenticate", "true")
    manager = jvm.org.apache.spark.SecurityManager
    defaults = [getattr(manager, f"$lessinit$greater$default${position}")() for position in (2, 3)]
    made = jvm.org.apache.spark.rpc.RpcEnv.create("client", "127.0.0.1", 0, conf, manager(conf, *defaults), True)
    try:
        yield made
    finally:
        made.shutdown()


def look_up(spark: SparkSession, client: Any) -> Any:
    port = spark.sparkContext.getConf().get("spark.driver.port")
    return client.setupEndpointRefByURI(f"spark://MapOutputTracker@127.0.0.1:{port}")


def test_rpc_refuses_a_client_without_the_secret(spark: SparkSession) -> None:
    with client_of(spark, authenticates=False) as client, pytest.raises(Py4JJavaError):
        look_up(spark, client)


def test_rpc_accepts_a_client_with_the_secret(spark: SparkSession) -> None:
    with client_of(spark, authenticates=True) as client:
        assert look_up(spark, client).name() == "MapOutputTracker"
