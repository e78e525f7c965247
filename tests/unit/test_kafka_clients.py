"""Clients that cannot connect."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import kafka.errors
import pytest

from rheostat.lab.node import free_ports
from streaming.kafka.clients import admin_client
from streaming.kafka.settings import KafkaSettings


def failed() -> None:
    nowhere = KafkaSettings(bootstrap_servers=f"127.0.0.1:{free_ports(1)[0]}", request_timeout_s=0.3)
    with pytest.raises(kafka.errors.KafkaTimeoutError):
        admin_client(nowhere, "test")


def test_who_cannot_connect_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    for _ in range(3):
        failed()
    for left in set(threading.enumerate()) - before:
        left.join(timeout=5)
    assert set(threading.enumerate()) <= before


def test_several_that_connect_at_a_time_leave_the_log_as_it_was() -> None:
    logger = logging.getLogger("kafka.net.manager")
    before = (logger.level, logger.propagate, list(logger.handlers))
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(failed) for _ in range(8)]:
            done.result(timeout=30)
    assert (logger.level, logger.propagate, logger.handlers) == before
