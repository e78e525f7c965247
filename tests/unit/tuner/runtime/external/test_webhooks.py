"""Webhooks against a real receiver: signature, ids, retries, a full queue, and a receiver that hangs."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from external_kit import ExternalService
from tuner_cases import live, observation

from tuner.control.throttle.state import Memory
from tuner.runtime.external import webhooks as module
from tuner.runtime.external.webhooks import ATTEMPTS_MAX, QUEUE_MAX, Delivery, Webhooks, WebhookSender, signed_request
from tuner.settings.external import WebhookSettings

SECRET = "a long secret"


def until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline_s
        threading.Event().wait(0.01)


@pytest.fixture
def secret(tmp_path: Path) -> str:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    return str(file)


class Counts:
    def __init__(self) -> None:
        self.results: Counter[str] = Counter()

    def __call__(self, webhook: str, result: str) -> None:
        assert webhook == "chat"
        self.results[result] += 1


def hook(url: str, secret: str, **more: Any) -> WebhookSettings:
    return WebhookSettings.model_validate({"name": "chat", "url": url, "secret_file": secret, "timeout_s": 0.3, **more})


def quick_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "pause_after", lambda failures: 0.001 * failures)


def test_event_is_signed_and_names_its_delivery(secret: str) -> None:
    counts, ids = Counts(), itertools.count(1)
    with ExternalService(b"ok").serving() as service:
        hooks = Webhooks("prod", counts, lambda: f"id-{next(ids)}")
        hooks.configure([hook(f"{service.url}/in", secret, events=["found", "done"])], dry_run=True)
        hooks.record_cycle(observation(live()), Memory(), ())
        hooks.record_cycle(observation(live()), Memory(), ())
        hooks.record_cycle(observation(live(moves=())), Memory(), ())
        until(lambda: counts.results["delivered"] == 2)
        hooks.stop()
    (path, headers, body), (_, _, last) = service.requests
    assert path == "/in"
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    assert headers["x-rheostat-signature"] == f"sha256={signature}"
    event = json.loads(body)
    assert (event["v"], event["event"], event["cluster"], event["dry_run"]) == (1, "found", "prod", True)
    assert headers["x-rheostat-delivery"] == event["id"] == "id-1"
    assert json.loads(last)["event"] == "done"


def test_failed_delivery_is_repeated_with_the_same_id(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick_pauses(monkeypatch)
    counts = Counts()
    with ExternalService(status=500).serving() as service:
        sender = WebhookSender(hook(service.url, secret), counts)
        sender.add(Delivery("id-1", b"{}"))
        until(lambda: counts.results["failed"] >= 2)
        service.status = 204
        until(lambda: counts.results["delivered"] == 1)
        sender.stop()
    assert {headers["x-rheostat-delivery"] for _, headers, _ in service.requests} == {"id-1"}
    assert counts.results["dropped"] == 0


@pytest.mark.parametrize("mode", ["answer", "redirect"])
def test_delivery_in_vain_is_dropped_and_the_next_is_sent(
    mode: str, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick_pauses(monkeypatch)
    counts = Counts()
    with ExternalService(status=500, mode=mode).serving() as service:
        sender = WebhookSender(hook(service.url, secret), counts)
        sender.add(Delivery("id-1", b"{}"))
        sender.add(Delivery("id-2", b"{}"))
        until(lambda: counts.results["dropped"] == 2)
        sender.stop()
    assert counts.results == {"failed": 2 * ATTEMPTS_MAX, "dropped": 2}
    ids = Counter(headers["x-rheostat-delivery"] for _, headers, _ in service.requests)
    assert ids == {"id-1": ATTEMPTS_MAX, "id-2": ATTEMPTS_MAX}


def test_hanging_receiver_never_delays_the_caller(secret: str) -> None:
    counts = Counts()
    with ExternalService(mode="hang").serving() as service:
        sender = WebhookSender(hook(service.url, secret, timeout_s=30), counts)
        began_s = time.monotonic()
        for number in range(QUEUE_MAX + 10):
            sender.add(Delivery(str(number), b"{}"))
        assert len(sender) == QUEUE_MAX
        assert counts.results["dropped"] == 10
        sender.stop()
        assert time.monotonic() - began_s < 15
        assert counts.results["dropped"] == QUEUE_MAX + 10
        assert len(sender) == 0


def test_unchanged_receiver_keeps_its_queue_after_a_reload(secret: str) -> None:
    counts = Counts()
    with ExternalService(mode="hang").serving() as service:
        hooks = Webhooks("prod", counts, lambda: "id")
        kept = hook(service.url, secret, timeout_s=30)
        hooks.configure([kept], dry_run=False)
        hooks.record_cycle(observation(live()), Memory(), ())
        hooks.configure([kept], dry_run=False)
        assert hooks.queue_lengths() == {"chat": 1}
        hooks.configure([hook(service.url, secret, timeout_s=29)], dry_run=False)
        assert (hooks.queue_lengths(), counts.results["dropped"]) == ({"chat": 0}, 1)
        hooks.stop()
        assert hooks.queue_lengths() == {}


def test_secret_comes_from_a_variable_and_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    quick_pauses(monkeypatch)
    counts = Counts()
    monkeypatch.delenv("HOOK_SECRET", raising=False)
    with ExternalService().serving() as service:
        settings = WebhookSettings(name="chat", url=service.url, secret_variable="HOOK_SECRET")
        sender = WebhookSender(settings, counts)
        sender.add(Delivery("id-1", b"{}"))
        until(lambda: counts.results["failed"] >= 1)
        assert service.requests == [], "nothing is sent without a signature"
        monkeypatch.setenv("HOOK_SECRET", SECRET)
        until(lambda: bool(counts.results["delivered"] or counts.results["dropped"]))
        sender.stop()


def test_secret_in_a_variable_may_have_any_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", os.fsdecode(b"\xff secret"))
    settings = WebhookSettings(name="chat", url="http://127.0.0.1:1/", secret_variable="HOOK_SECRET")
    request = signed_request(Delivery("id-1", b"{}"), settings)
    signature = hmac.new(b"\xff secret", b"{}", hashlib.sha256).hexdigest()
    assert request.get_header("X-rheostat-signature") == f"sha256={signature}"
