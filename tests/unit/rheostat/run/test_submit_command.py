from __future__ import annotations

import shlex
import sys
from pathlib import Path

from rheostat.run.submit_command import submit_command
from streaming.settings import StreamSettings

JARS = [Path("/jars/kernel.jar"), Path("/jars/kafka clients.jar")]


def words(stream: StreamSettings, master: str | None = None) -> list[str]:
    return shlex.split(submit_command(stream, JARS, Path("/etc/rheostat/rheostat.yaml"), master))


def confs(command: list[str]) -> dict[str, str]:
    return dict(command[i + 1].split("=", 1) for i, word in enumerate(command) if word == "--conf")


def test_submit_command_has_what_takes_effect_at_the_start_of_the_jvm() -> None:
    stream = StreamSettings(checkpoint_dir=Path("/c"), driver_memory_mb=2048, compiler="quick")
    command = words(stream)
    assert command[:5] == ["spark-submit", "--master", "local[2]", "--deploy-mode", "client"]
    found = confs(command)
    assert found["spark.driver.memory"] == "2048m"
    assert found["spark.driver.extraClassPath"] == "/jars/kernel.jar:/jars/kafka clients.jar"
    assert "-Xss8m" in found["spark.driver.extraJavaOptions"].split()
    assert "-XX:TieredStopAtLevel=1" in found["spark.driver.extraJavaOptions"].split()
    assert found["spark.pyspark.driver.python"] == sys.executable
    assert Path(command[-3]).is_file()
    assert command[-2:] == ["--config", "/etc/rheostat/rheostat.yaml"]


def test_submit_command_shows_no_secret_and_passes_master_on() -> None:
    stream = StreamSettings(
        checkpoint_dir=Path("/c"),
        master="spark://spark-1:7077",
        driver_host="10.0.0.7",
        spark_conf={"spark.authenticate.secret": "hidden", "spark.jars": "/s3.jar", "spark.driver.port": "7000"},
    )
    command = words(stream, "spark://spark-1:7077")
    assert "hidden" not in " ".join(command)
    assert confs(command) | {"spark.jars": "/s3.jar", "spark.driver.port": "7000"} == confs(command)
    assert confs(command)["spark.driver.host"] == "10.0.0.7"
    assert command[-2:] == ["--master", "spark://spark-1:7077"]
