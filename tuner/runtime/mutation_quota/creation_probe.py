"""Measures the topic-create latency that clients see, by sending a request to the controller ten times a second.

Kafka's own metrics do not show this latency. A broker's CreateTopics time covers all requests, including the large requests of
a burst. The mean and the median of that time hardly change even if one request in twenty takes three times as long as the others.

The probe's request waits in the controller's queue like a topic creation, but changes nothing: it is an IncrementalAlterConfigs
request for the journal topic without any setting, with ``validate_only``. The probe sends its requests through up to five brokers
in turn, at random intervals, over connections of its own.

Invariant: the probe creates and changes nothing. If it lacks the permission, or no broker answers, it reports no latency and logs
the cause once.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from streaming.shared.kafka.cluster import ClusterError
from streaming.shared.kafka.values import Endpoint, MissingPermission
from streaming.shared.teardown import named_teardown
from tuner.control.mutation_quota.probe_window import ProbeRequest, ProbeWindow

log = structlog.get_logger("tuner")

# Mean interval. A request costs the controller a fraction of a millisecond. With half as many requests, the latency would fluctuate
# about 1.5 times as much.
EVERY_S = 0.1
BROKERS_MAX = 5  # With more brokers, each broker would get too few requests for a median of its own.
_BROKERS_REFRESH_S = 30.0
_NO_BROKER_PAUSE_S = 1.0
# Requests to a broker that does not answer would delay the requests through other brokers.
_FAILED_BROKER_PAUSE_S = 30.0
_REFUSED_PAUSE_S = 60.0
_STOP_S_MAX = 1.0
_TIMED_OUT_RATIO = 0.9  # A request that fails before this share of the time-out has failed for another reason.
# If this thread wakes up with a longer delay, the machine is busy and would also read the answer late. So the request is ignored.
_LATE_S_MAX = 0.05
# If the next broker answers sooner than this, the controller was not the cause of the previous broker's time-out.
_SLOW_S = 1.0


class ProbeClient(Protocol):
    timeout_s: float

    def brokers(self) -> Sequence[Endpoint]: ...

    def connect(self, broker: int) -> ClusterError | None:
        """Connects to the broker."""

    def ping(self, broker: int) -> ClusterError | None:
        """Sends one request and waits for the answer."""

    def close(self) -> None: ...


class CreationProbe:
    """Runs the probe in a thread of its own. Only this thread uses the client."""

    def __init__(
        self,
        client: ProbeClient,
        *,
        rng: random.Random,
        monotonic: Callable[[], float] = time.monotonic,
        window: ProbeWindow | None = None,
    ) -> None:
        """
        Args:
            window: receives the requests; None means a window of 30 s.
        """
        self._client = client
        self._rng = rng
        self._monotonic = monotonic
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._window = ProbeWindow() if window is None else window
        self._brokers: tuple[int, ...] = ()
        self._refresh_due_s = float("-inf")
        self._requests = 0
        self._connected: set[int] = set()
        self._paused_until_s: dict[int, float] = {}
        # A request that timed out. It is used only if the next broker is slow as well, because the controller is then the cause.
        self._timed_out: ProbeRequest | None = None
        self._logged_cause: str | None = None
        self._thread = threading.Thread(target=self._run, name="creation-probe", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread, and waits for it at most one second. A pending request may end later."""
        self._stop.set()
        if self._thread.ident is None:
            self._client.close()
        else:
            self._thread.join(timeout=_STOP_S_MAX)

    def p90_ms(self) -> float | None:
        """Returns the 90th percentile of the latency in ms; None if it is not known. Safe from any thread."""
        with self._lock:
            p90_s = self._window.p90_s(self._monotonic())
        return None if p90_s is None else 1000 * p90_s

    def _run(self) -> None:
        due_s = self._monotonic()
        try:
            while not self._stop.wait(max(0.0, due_s - self._monotonic())):
                try:
                    pause_s = self.send_one(due_s)
                except Exception as error:  # noqa: BLE001 - without the probe, quotas would never be raised again
                    self._log_once("unexpected error", f"{type(error).__name__}: {error}")
                    self._connected.clear()
                    pause_s = _REFUSED_PAUSE_S
                # Requests that fell due meanwhile are not sent: ``ProbeWindow`` adds them as implied requests.
                due_s = max(due_s, self._monotonic()) + pause_s + EVERY_S * self._rng.uniform(0.5, 1.5)
        finally:
            named_teardown("creation probe", self._client.close)()

    def send_one(self, due_s: float) -> float:
        """Sends one request through the next broker. Returns the extra pause before the next request, in seconds."""
        broker = self._next_broker()
        if broker is None:
            return _NO_BROKER_PAUSE_S
        # The time to connect is not measured, because it does not depend on the controller.
        if broker not in self._connected:
            error = self._client.connect(broker)
            if error is not None:
                return self._pause_broker(broker, error)
            self._connected.add(broker)
            return 0.0
        began_s = self._monotonic()
        error = self._client.ping(broker)
        request = ProbeRequest(began_s, self._monotonic() - began_s, broker)
        if isinstance(error, MissingPermission):
            self._log_once("missing permission", str(error))
            return _REFUSED_PAUSE_S
        if error is None:
            self._logged_cause = None
            self._paused_until_s.pop(broker, None)
            on_time = began_s - due_s <= _LATE_S_MAX
            self._count(request if on_time else None, confirms_time_out=request.took_s >= _SLOW_S)
            return 0.0
        # A request that failed well before the time-out has not waited for the controller, so it is ignored.
        if request.took_s >= _TIMED_OUT_RATIO * self._client.timeout_s:
            confirmed = self._timed_out is not None or len(self._brokers) == 1
            self._count(request if confirmed else None, confirms_time_out=confirmed)
            self._timed_out = None if confirmed else request
        return self._pause_broker(broker, error)

    def _count(self, request: ProbeRequest | None, *, confirms_time_out: bool) -> None:
        """Adds the request to the window, together with the previous time-out if the controller was its cause.

        Args:
            request: the request that has ended; None if it is ignored.
            confirms_time_out: this request shows that the controller was the cause of the previous time-out.
        """
        timed_out, self._timed_out = self._timed_out, None
        with self._lock:
            for counted in (timed_out if confirms_time_out else None, request):
                if counted is not None:
                    self._window.add(counted, EVERY_S)

    def _pause_broker(self, broker: int, error: ClusterError) -> float:
        """Prefers other brokers for a while. Returns the extra pause before the next request, in seconds.

        A paused broker is used only if all brokers are paused. So if a paused broker fails again, no broker answers.
        """
        now_s = self._monotonic()
        self._connected.clear()
        was_paused = self._is_paused(broker, now_s)
        self._paused_until_s[broker] = now_s + _FAILED_BROKER_PAUSE_S
        if not was_paused:
            return 0.0
        self._log_once("no broker answers", str(error))
        return _NO_BROKER_PAUSE_S

    def _next_broker(self) -> int | None:
        """Returns the broker for the next request; None if no broker is known."""
        now_s = self._monotonic()
        if now_s >= self._refresh_due_s:
            try:
                self._brokers = self._choose_brokers([broker.node for broker in self._client.brokers()], now_s)
            except ClusterError as error:
                self._connected.clear()
                self._log_once("the list of brokers cannot be read", str(error))
                return None
            self._refresh_due_s = self._monotonic() + _BROKERS_REFRESH_S
        if not self._brokers:
            return None
        available = [broker for broker in self._brokers if not self._is_paused(broker, now_s)]
        # If all brokers are paused, the broker with the shortest remaining pause is used.
        available = available or [min(self._brokers, key=lambda broker: self._paused_until_s[broker])]
        self._requests += 1
        return available[self._requests % len(available)]

    def _is_paused(self, broker: int, now_s: float) -> bool:
        return self._paused_until_s.get(broker, now_s) > now_s

    def _choose_brokers(self, present: Sequence[int], now_s: float) -> tuple[int, ...]:
        """Returns up to five brokers: first brokers in use that still exist, then others at random, and paused brokers last."""
        kept = [broker for broker in self._brokers if broker in present and not self._is_paused(broker, now_s)]
        new = [broker for broker in present if broker not in self._brokers and not self._is_paused(broker, now_s)]
        added = self._rng.sample(new, min(len(new), BROKERS_MAX - len(kept)))
        paused = [broker for broker in present if self._is_paused(broker, now_s)]
        return (*kept, *added, *paused)[:BROKERS_MAX]

    def _log_once(self, cause: str, error: str) -> None:
        """Logs the cause once until a request succeeds."""
        if cause != self._logged_cause:
            log.warning("topic-create latency cannot be measured, so no quota is raised", reason=cause, error=error)
        self._logged_cause = cause
