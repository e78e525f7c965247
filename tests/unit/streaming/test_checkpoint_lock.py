"""The lock of a checkpoint on HDFS, while another client holds it."""

from __future__ import annotations

import errno
import threading
import time
from typing import Any

import pytest

from streaming import checkpoint_lock
from streaming.checkpoint_location import HadoopFolder
from streaming.errors import StreamError

FOLDER = HadoopFolder("hdfs://a:1/checkpoint")
NO_SPARK: Any = None


class HeldPath:
    """A path on HDFS whose lock file another client has open."""

    def __init__(self, _spark: object, uri: str) -> None:
        self.uri = uri
        self.name = uri.rpartition("/")[2]

    def __str__(self) -> str:
        return self.uri

    def mkdir(self) -> None: ...

    def with_name(self, name: str) -> HeldPath:
        return HeldPath(None, f"hdfs://a:1/{name}")

    def has_leases(self) -> bool:
        return True

    def open_exclusively(self) -> None:
        raise OSError(errno.EIO, "AlreadyBeingCreatedException: host-2 has it", self.uri)


@pytest.fixture(autouse=True)
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_lock, "HadoopPath", HeldPath)


def test_lock_that_another_client_holds_is_refused_with_its_host() -> None:
    with (
        pytest.raises(StreamError, match=r"lock file hdfs://a:1/checkpoint\.lock: stop .*host-2 has it"),
        checkpoint_lock.locked_by_jvm(NO_SPARK, FOLDER, wait_s=0),
    ):
        pytest.fail("it has the lock")


def test_wait_for_the_lock_ends_with_the_process() -> None:
    stop, began_s = threading.Event(), time.monotonic()
    timer = threading.Timer(0.2, stop.set)
    timer.start()
    with checkpoint_lock.locked_by_jvm(NO_SPARK, FOLDER, wait_s=60, stop=stop):
        assert stop.is_set()
    assert time.monotonic() - began_s < 10
    timer.join()
