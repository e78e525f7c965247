"""The command that `rheostat stream --spark-submit` prints starts the stream, as docs/how-to/run-on-a-spark-cluster.md says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from fed_stream import fed_stream
from lab_parts import rheostat, running, until

from rheostat.jvm.java import find_java
from rheostat.lab.cluster import Lab, LabSpec

pytestmark = [pytest.mark.campaign]
LAB = LabSpec(brokers=1)


def test_printed_command_starts_stream_in_one_jvm_and_passes_exit_code_on(lab: Lab, tmp_path: Path) -> None:
    with fed_stream(lab, tmp_path, "local", {"spark.hadoop.fs.test.secret.key": "hidden"}) as fed:
        printed = rheostat("stream", "--config", fed.config, "--spark-submit")
        assert printed.returncode == 0, printed.stderr
        assert "hidden" not in printed.stdout
        env = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "JAVA_HOME": str(find_java().executable.parents[1]),
        }
        with running("sh", "-c", f"exec {printed.stdout}", log=tmp_path / "submit.log", env=env) as submit:
            until(lambda: fed.has_both(0) or not submit.alive(), 150, lambda: f"signals: {submit.said()[-3000:]}")
            assert submit.alive(), submit.said()[-3000:]
            processes = [psutil.Process(submit.pid), *submit.descendants()]
            jvms = [p for p in processes if p.name() == "java"]
            assert [p.pid for p in jvms] == [submit.pid], "Python uses the JVM that spark-submit has started"
            assert "-Xmx512m" in jvms[0].cmdline()
            python = next(p for p in processes if "rheostat_stream.py" in " ".join(p.cmdline()) and p.name() != "java")
            python.send_signal(signal.SIGTERM)
            assert submit.process.wait(60) == 0, submit.said()[-3000:]
        assert {one.broker: one.leaders for one in fed.found} == {1: 10.0, 2: 20.0}
        fed.config.write_text("cluster: c\n")
        done = subprocess.run(
            ["sh", "-c", printed.stdout],
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 2, done.stderr[-3000:]
        assert "kafka: is missing" in done.stdout + done.stderr, "spark-submit may join both outputs of Python"
