"""The stream with its checkpoint on S3: Hadoop's S3A file system, and a server of Moto in place of S3."""

from __future__ import annotations

import os
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from fed_stream import FedStream, fed_stream, missing_or_wrong_windows
from lab_parts import RHEOSTAT, Running, rheostat, running, until
from moto.server import ThreadedMotoServer

from rheostat.jvm.artifacts import resolve_jars
from rheostat.lab.cluster import Lab, LabSpec

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(700)]
LAB = LabSpec(brokers=1)
BUCKET = "checkpoints"


@pytest.fixture
def s3() -> Iterator[str]:
    """The address of a server with an empty bucket."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        call(f"http://{host}:{port}/{BUCKET}", "PUT")
        yield f"http://{host}:{port}"
        # The server's state is that of this process.
        call(f"http://{host}:{port}/moto-api/reset-auth", "POST", b"inf")
        call(f"http://{host}:{port}/moto-api/reset", "POST")
    finally:
        server.stop()


def call(url: str, method: str, body: bytes = b"") -> bytes:
    headers = {"Content-Type": "application/octet-stream"}  # Otherwise the server takes the body for a form.
    request = urllib.request.Request(url, data=body, method=method, headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return bytes(answer.read())


def conf(address: str) -> dict[str, str]:
    """The settings for ``stream.spark_conf``, as docs/how-to/run-on-a-spark-cluster.md has them."""
    jars = resolve_jars(Path(__file__).with_name("s3-ivy.xml"))["s3"]
    return {
        "spark.jars": ",".join(map(str, jars)),
        "spark.hadoop.fs.s3a.endpoint": address,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": "test",
        "spark.hadoop.fs.s3a.secret.key": "test-secret",
    }


def signals_after(fed: FedStream, stream: Running, after_ms: int, timeout_s: float) -> None:
    """Waits until signals contain a scrape that is newer than ``after_ms``."""
    until(lambda: fed.has_both(after_ms) or not stream.alive(), timeout_s, lambda: f"signals: {stream.said()[-3000:]}")
    assert stream.alive(), stream.said()[-3000:]


def test_killed_stream_continues_from_its_checkpoint(lab: Lab, s3: str, tmp_path: Path) -> None:
    with fed_stream(lab, tmp_path, "local", conf(s3), f"s3a://{BUCKET}/checkpoint") as fed:
        command = (*RHEOSTAT, "stream", "--config", fed.config)
        with running(*command, log=tmp_path / "first.log") as first:
            signals_after(fed, first, 0, 240)
            until(lambda: fed.has_both(fed.sent_ms[0] + 40_000), 60, "windows end")
            processes = first.descendants()
            os.kill(first.pid, signal.SIGKILL)
            for process in processes:
                process.kill()
        assert "has no locks: only the lease in Kafka keeps two streams of a cluster apart" in first.said()
        with running(*command, log=tmp_path / "second.log") as second:
            signals_after(fed, second, fed.sent_ms[-1], 240)
            last_ms = fed.sent_ms[-1]
            signals_after(fed, second, last_ms + 8_000, 60)
            assert second.end(signal.SIGTERM) == 0
        assert not missing_or_wrong_windows(fed, last_ms)
        names = call(f"{s3}/{BUCKET}?list-type=2&prefix=checkpoint/", "GET").decode()
        assert "checkpoint/rheostat.json</Key>" in names
        assert "checkpoint/live-1/commits/" in names
        assert "Traceback" not in first.said() + second.said()


def test_stream_without_rights_ends_with_one_sentence(lab: Lab, s3: str, tmp_path: Path) -> None:
    call(f"{s3}/moto-api/reset-auth", "POST", b"0")  # From now on the server checks keys, and knows none.
    with fed_stream(lab, tmp_path, "local", conf(s3), f"s3a://{BUCKET}/checkpoint") as fed:
        done = rheostat("stream", "--config", fed.config, timeout_s=200)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1, done.stderr[-3000:]
    assert (
        f"The checkpoint s3a://{BUCKET}/checkpoint cannot be used. Give the user or the access key of the stream"
        in last
    )
    assert "403" in last
    assert "test-secret" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("settings", "cause"),
    [({}, "S3AFileSystem not found"), ({"spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:1"}, "Connect")],
    ids=["no jars", "no server"],
)
def test_missing_file_system_ends_the_stream_with_one_sentence(
    settings: dict[str, str], cause: str, lab: Lab, s3: str, tmp_path: Path
) -> None:
    spark_conf = conf(s3) | settings if settings else {}
    with fed_stream(lab, tmp_path, "local", spark_conf, f"s3a://{BUCKET}/checkpoint") as fed:
        done = rheostat("stream", "--config", fed.config, timeout_s=240)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1, done.stderr[-3000:]
    assert (
        f"The checkpoint s3a://{BUCKET}/checkpoint cannot be used. Check the address, that the file system answers"
        in last
    )
    assert cause in last
    assert "Traceback" not in done.stderr
