"""Sends events to the receivers of ``tuner.webhooks``, in threads of their own, so that no cycle waits for a receiver.

Each receiver has a bounded queue. If a request fails, the same delivery is tried again with growing pauses, with the same id.
A delivery is dropped and counted if all attempts fail, or if the queue is full.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import threading
import urllib.request
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from streaming.shared.kafka.secrets import LoginError, SecretFile
from tuner.api.webhook_events import EventTracker, ExternalEvent
from tuner.control.throttle.decision import Decision, ExecutedDecision
from tuner.control.throttle.state import Memory
from tuner.core.backoff import pause_after
from tuner.core.cluster import Observation
from tuner.runtime.external.http_client import FailureKind, NoAnswer, send
from tuner.settings.external import WebhookSettings

log = structlog.get_logger("tuner")

QUEUE_MAX = 256
ATTEMPTS_MAX = 8  # The attempts and the pauses between them take about ten minutes.
VERSION = 1
SIGNATURE_HEADER, ID_HEADER = "X-Rheostat-Signature", "X-Rheostat-Delivery"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event for one receiver. ``id`` stays the same when it is tried again."""

    id: str
    body: bytes


class WebhookSender:
    """The queue and the thread of one receiver. ``add`` never waits."""

    def __init__(self, settings: WebhookSettings, count: Callable[[str, str], None]) -> None:
        """
        Args:
            count: counts the result of a delivery by the receiver's name: delivered, failed or dropped.
        """
        self.settings = settings
        self._count = count
        self._changed = threading.Condition()
        self._queue: deque[Delivery] = deque()
        self._stopped = False
        threading.Thread(target=self._send_repeatedly, name=f"webhook {settings.name}", daemon=True).start()

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, delivery: Delivery) -> None:
        """Puts a delivery into the queue; drops it if the queue is full."""
        with self._changed:
            is_full = len(self._queue) >= QUEUE_MAX
            if not is_full:
                self._queue.append(delivery)
                self._changed.notify_all()
        if is_full:
            self._count(self.settings.name, "dropped")

    def stop(self) -> None:
        """Ends the thread and drops the deliveries that are left. A request in progress ends by itself."""
        with self._changed:
            self._stopped = True
            left = len(self._queue)
            self._queue.clear()
            self._changed.notify_all()
        for _ in range(left):
            self._count(self.settings.name, "dropped")
        if left:
            log.warning(
                "events were not sent to a webhook and are dropped, because the tuner stops",
                webhook=self.settings.name,
                events=left,
            )

    def _send_repeatedly(self) -> None:
        attempts = 0
        while (delivery := self._next()) is not None:
            attempts += 1
            try:
                send(signed_request(delivery, self.settings), self.settings.cafile, self.settings.timeout_s)
            except NoAnswer as failure:
                self._count(self.settings.name, "failed")
                is_last = attempts >= ATTEMPTS_MAX
                if attempts == 1 or is_last:
                    outcome = "the event is dropped" if is_last else "the tuner tries again"
                    log.warning(
                        f"a webhook got no event: {outcome}",
                        webhook=self.settings.name,
                        why=str(failure),
                        delivery=delivery.id,
                    )
                if not is_last:
                    self._pause(pause_after(attempts))
                    continue
                self._count(self.settings.name, "dropped")
            else:
                self._count(self.settings.name, "delivered")
            attempts = 0
            with self._changed:
                if self._queue:
                    self._queue.popleft()

    def _next(self) -> Delivery | None:
        """Waits for a delivery and returns it, but leaves it in the queue. Returns None if the sender has stopped."""
        with self._changed:
            while not self._queue and not self._stopped:
                self._changed.wait()
            return None if self._stopped else self._queue[0]

    def _pause(self, duration_s: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped, timeout=duration_s)


class Webhooks:
    """Receives the tuner's cycles, and passes their events to the senders. Lives as long as the process."""

    def __init__(self, cluster: str, count: Callable[[str, str], None], make_id: Callable[[], str]) -> None:
        """
        Args:
            make_id: returns an id that no other delivery has.
        """
        self._cluster = cluster
        self._count = count
        self._make_id = make_id
        self._dry_run = False
        self._senders: tuple[WebhookSender, ...] = ()
        self._tracker = EventTracker()

    def configure(self, settings: Sequence[WebhookSettings], *, dry_run: bool) -> None:
        """Uses other settings. A receiver whose settings are unchanged keeps its queue."""
        current = {sender.settings: sender for sender in self._senders}
        self._senders = tuple(
            current[hook] if hook in current else WebhookSender(hook, self._count) for hook in settings
        )
        self._dry_run = dry_run
        for hook, sender in current.items():
            if hook not in settings:
                sender.stop()

    def queue_lengths(self) -> dict[str, int]:
        """Returns the number of events that wait, by receiver."""
        return {sender.settings.name: len(sender) for sender in self._senders}

    def record_cycle(self, observation: Observation, memory: Memory, decisions: tuple[Decision, ...]) -> None:  # noqa: ARG002
        if not self._senders:
            return
        for event in self._tracker.events(observation, memory):
            for sender in self._senders:
                if event.kind in sender.settings.events:
                    sender.add(self._delivery(event))

    def record_actions(self, acts: Sequence[ExecutedDecision]) -> None:
        self._tracker.note_actions(acts)

    def stop(self) -> None:
        self.configure((), dry_run=self._dry_run)

    def _delivery(self, event: ExternalEvent) -> Delivery:
        delivery_id = self._make_id()
        body = {
            "v": VERSION,
            "id": delivery_id,
            "event": event.kind,
            "cluster": self._cluster,
            "at_ms": event.at_ms,
            "dry_run": self._dry_run,
            "text": event.text,
            "details": event.details,
        }
        return Delivery(delivery_id, json.dumps(body).encode())


def signed_request(delivery: Delivery, settings: WebhookSettings) -> urllib.request.Request:
    """Returns the POST request of a delivery, with the HMAC-SHA256 of its body.

    Raises:
        NoAnswer: the secret cannot be read.
    """
    digest = hmac.new(_secret(settings), delivery.body, hashlib.sha256).hexdigest()
    headers = {
        "Content-Type": "application/json",
        ID_HEADER: delivery.id,
        SIGNATURE_HEADER: f"sha256={digest}",
    }
    return urllib.request.Request(settings.url, data=delivery.body, headers=headers, method="POST")


def _secret(settings: WebhookSettings) -> bytes:
    if settings.secret_file is not None:
        try:
            return SecretFile("secret_file", settings.secret_file, "tuner.webhooks").read().encode()
        except LoginError as error:
            raise NoAnswer(FailureKind.SECRET, str(error)) from error
    secret = os.environ.get(settings.secret_variable or "", "")
    if not secret:
        raise NoAnswer(
            FailureKind.SECRET,
            f"tuner.webhooks.secret_variable: the environment variable {settings.secret_variable} is not set",
        )
    return os.fsencode(secret)  # A variable may have bytes that are not UTF-8.
