"""The stream on a broker that accepts only Kerberos: Spark's source and sink log in, and faults are named."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fed_stream import FedStream, fed_stream, missing_or_wrong_windows
from kerberos_kit import (
    LOGIN_AGAIN_S,
    STRANGER,
    TICKET_S,
    Kerberos,
    kerberos_in,
    kerberos_settings,
    kerberos_spec,
    needs_kerberos,
)
from lab_parts import RHEOSTAT, rheostat, running, until

from rheostat.errors import EXIT_UNREACHABLE
from rheostat.lab.cluster import Lab

NO_TICKET = "there is no password, token or ticket for Kafka"

pytestmark = [pytest.mark.campaign, needs_kerberos]


@pytest.fixture(scope="module")
def kerberos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kerberos]:
    with kerberos_in(tmp_path_factory.mktemp("kdc")) as kdc:
        yield kdc


@pytest.fixture(scope="module")
def kerberos_lab(kerberos: Kerberos) -> Iterator[Lab]:
    with Lab(kerberos_spec(kerberos)) as lab:
        yield lab


def log_in_with_kerberos(fed: FedStream, lab: Lab, kerberos: Kerberos, **other: Any) -> None:
    """Changes the connection in the settings file. The test itself goes on without a login."""
    settings = yaml.safe_load(fed.config.read_text())
    connection = kerberos_settings(lab, kerberos, **other)
    settings["kafka"] = connection.model_dump(exclude_defaults=True)
    fed.config.write_text(yaml.safe_dump(settings))


@pytest.mark.parametrize("source", ["keytab", "ticket cache"])
def test_signals_are_made_over_kerberos(kerberos_lab: Lab, kerberos: Kerberos, tmp_path: Path, source: str) -> None:
    other: dict[str, Any] = {}
    env = {}
    if source == "ticket cache":
        kerberos.write_ticket_cache(tmp_path / "tickets")
        other = {"sasl_kerberos_principal": None, "sasl_kerberos_keytab": None}
        env = {"KRB5CCNAME": f"FILE:{tmp_path}/tickets"}
    with fed_stream(kerberos_lab, tmp_path, "local", {}) as fed:
        log_in_with_kerberos(fed, kerberos_lab, kerberos, **other)
        with running(*RHEOSTAT, "stream", "--config", fed.config, log=tmp_path / "stream.log", env=env) as stream:
            until(lambda: fed.has_both(0) or not stream.alive(), 150, "signals arrive")
            assert stream.alive()
            assert stream.end(signal.SIGTERM) == 0
        assert {one.broker: one.leaders for one in fed.found} == {1: 10.0, 2: 20.0}
        assert "Traceback" not in stream.said()


def test_stream_outlives_an_outage_of_the_kdc(kerberos_lab: Lab, kerberos: Kerberos, tmp_path: Path) -> None:
    """Tickets for the broker end after seconds, and the broker demands a new login. No window is lost."""
    with fed_stream(kerberos_lab, tmp_path, "local", {}) as fed:
        log_in_with_kerberos(fed, kerberos_lab, kerberos)
        with running(*RHEOSTAT, "stream", "--config", fed.config, log=tmp_path / "stream.log") as stream:
            until(lambda: fed.has_both(0), 150, "signals arrive")

            def lacks_ticket() -> bool:
                fed.feed()
                return NO_TICKET in stream.said() or not stream.alive()

            kerberos.stop()
            try:
                until(lacks_ticket, TICKET_S + 2 * LOGIN_AGAIN_S + 60, "the stream says that it has no ticket")
            finally:
                kerberos.start()
            back_ms = int(time.time() * 1000)
            until(lambda: fed.has_both(back_ms) or not stream.alive(), 90, "signals again")
            sys.stdout.write(f"signals again {time.time() - back_ms / 1000:.1f} s after the KDC\n")
            last_ms = fed.sent_ms[-1]
            until(lambda: fed.has_both(last_ms + 8_000), 60, "windows end")
            assert stream.alive(), "the same stream goes on"
            assert stream.end(signal.SIGTERM) == 0
        assert not missing_or_wrong_windows(fed, last_ms)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"sasl_kerberos_keytab": "/missing/keytab"}, r"kafka\.sasl_kerberos_keytab: /missing/keytab cannot be read"),
        (
            {"sasl_kerberos_principal": STRANGER},
            r"login as stranger@TEST, whose key must be in /.*, failed",
        ),
        ({"sasl_kerberos_service_name": "hdfs"}, r"Server hdfs/localhost@TEST not found in Kerberos database"),
        ({}, r"Cannot contact any KDC for realm 'TEST'"),
    ],
    ids=["keytab", "principal", "service", "no-kdc"],
)
def test_fault_at_the_start_is_one_sentence(
    kerberos_lab: Lab, kerberos: Kerberos, tmp_path: Path, other: dict[str, str], why: str
) -> None:
    with fed_stream(kerberos_lab, tmp_path, "local", {}) as fed:
        log_in_with_kerberos(fed, kerberos_lab, kerberos, **other)
    if not other:
        kerberos.stop()
    try:
        ended = rheostat("stream", "--config", fed.config)
    finally:
        if not other:
            kerberos.start()
    assert ended.returncode == EXIT_UNREACHABLE
    assert re.search(why, ended.stderr), ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1, ended.stderr
    assert "Traceback" not in ended.stderr
