"""Checks against a real server that answers well, hangs, drips, sends 1 GB, or redirects; and how long an answer counts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from external_kit import ExternalService

from tuner.core.vetoes import Veto
from tuner.runtime.external.http_client import FailureKind, NoAnswer
from tuner.runtime.external.veto_answers import VetoAnswer
from tuner.runtime.external.veto_watch import CheckState, VetoWatch, ask
from tuner.settings.external import VetoSettings

VETOES = b'{"veto": true, "cause": "a backup runs"}'


def check(url: str, **more: Any) -> VetoSettings:
    return VetoSettings.model_validate({"name": "backup", "url": url, "timeout_s": 0.3, **more})


def until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline_s
        threading.Event().wait(0.01)


@pytest.mark.parametrize(
    ("service", "kind"),
    [
        (ExternalService(mode="hang"), FailureKind.TIMEOUT),
        (ExternalService(mode="drip"), FailureKind.TIMEOUT),
        (ExternalService(mode="endless"), FailureKind.TOO_LARGE),
        (ExternalService(mode="redirect"), FailureKind.REDIRECT),
        (ExternalService(VETOES, status=500), FailureKind.STATUS),
        (ExternalService(b"<html>"), FailureKind.NOT_JSON),
    ],
)
def test_bad_answer_is_named_in_limited_time_and_size(service: ExternalService, kind: FailureKind) -> None:
    with service.serving():
        began_s = time.monotonic()
        with pytest.raises(NoAnswer) as caught:
            ask(check(service.url, timeout_s=5 if kind is FailureKind.TOO_LARGE else 0.3))
        assert caught.value.kind is kind
        assert time.monotonic() - began_s < 5
        assert [path for path, _, _ in service.requests] == ["/"], "a redirect is not followed"
        assert service.sent_bytes < 64 << 20


def test_server_that_is_away_is_unreachable() -> None:
    with ExternalService().serving() as service:
        url = service.url
    with pytest.raises(NoAnswer) as caught:
        ask(check(url))
    assert caught.value.kind is FailureKind.UNREACHABLE


def test_query_and_token_reach_prometheus(tmp_path: Path) -> None:
    body = b'{"status": "success", "data": {"resultType": "scalar", "result": [1, "7"]}}'
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    with ExternalService(body).serving() as service:
        settings = VetoSettings(
            name="p", prometheus=f"{service.url}/", query='a{b="&"} > 1', above=5, token_file=str(token)
        )
        assert ask(settings) == VetoAnswer(vetoes=True, cause="its value 7 is above 5")
        ((path, headers, _),) = service.requests
    assert path == "/api/v1/query?query=a%7Bb%3D%22%26%22%7D%20%3E%201"
    assert headers["authorization"] == "Bearer s3cret"


def test_missing_token_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoAnswer, match=r"tuner\.vetoes\.token_file: .*missing cannot be read") as caught:
        ask(check("http://127.0.0.1:9", token_file=str(tmp_path / "missing")))
    assert caught.value.kind is FailureKind.SECRET


# -- how long an answer counts ---------------------------------------------------------------------------------------------

SETTINGS = check("http://localhost/", answer_valid_s=60, interval_s=15, unknown_hold_s=300)


@pytest.mark.parametrize(
    ("answer", "age_s", "vetoes", "is_unknown"),
    [
        (VetoAnswer(True, "a backup runs"), 60, True, False),
        (VetoAnswer(False), 60, False, False),
        (VetoAnswer(True, "a backup runs"), 61, True, True),
        (VetoAnswer(False), 61, True, True),
        (VetoAnswer(False), 359, True, True),
        (VetoAnswer(True, "a backup runs"), 360, False, True),
        (None, 0, True, True),
        (None, 299, True, True),
        (None, 300, False, True),
    ],
)
def test_missing_answer_holds_for_a_limited_time(
    answer: VetoAnswer | None, age_s: float, vetoes: bool, is_unknown: bool
) -> None:
    state = CheckState(1000.0, answer, "it answers with the status 500")
    veto = state.veto(SETTINGS, 1000.0 + age_s, 5_000_000)
    assert (veto is not None, state.is_unknown(SETTINGS, 1000.0 + age_s)) == (vetoes, is_unknown)
    if veto is not None and is_unknown:
        assert veto == Veto("backup", "no valid answer: it answers with the status 500")  # It lowers nothing.


def test_unknown_hold_of_zero_never_holds() -> None:
    settings = SETTINGS.model_copy(update={"unknown_hold_s": 0.0})
    assert CheckState(1000.0).veto(settings, 1000.0, None) is None


def test_watch_follows_answers_and_hanging_checks_delay_no_other() -> None:
    failures: list[tuple[str, FailureKind]] = []
    hangs, answers = ExternalService(mode="hang"), ExternalService(VETOES)
    with hangs.serving(), answers.serving():
        checks = [
            VetoSettings(name="hangs", url=hangs.url, timeout_s=0.2, interval_s=1, unknown_hold_s=0),
            VetoSettings(name="backup", url=answers.url, interval_s=1, effect="lower"),
        ]
        watch = VetoWatch(checks, 5_000_000, time.monotonic, lambda name, kind: failures.append((name, kind)))
        assert watch.current() == (Veto("backup", "no valid answer: it has not answered yet"),)
        watch.start()
        try:
            until(lambda: watch.current() == (Veto("backup", "a backup runs", 5_000_000),))
            until(lambda: ("hangs", FailureKind.TIMEOUT) in failures)
            assert [(r.name, r.vetoes, r.is_unknown) for r in watch.reports()] == [
                ("hangs", False, True),
                ("backup", True, False),
            ]
            answers.body = b'{"veto": false}'
            until(lambda: watch.current() == ())
        finally:
            watch.stop()


def test_thread_of_a_check_ends_after_stop() -> None:
    with ExternalService(VETOES).serving() as service:
        watch = VetoWatch([check(service.url)], 1, time.monotonic, lambda *_: None)
        watch.start()
        until(lambda: bool(service.requests))
        watch.stop()
        until(lambda: all(thread.name != "veto backup" for thread in threading.enumerate()))
