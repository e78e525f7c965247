"""Rate limits per caller (token buckets) and the maximum size of request bodies.

Reads, orders and wrong tokens have separate buckets, so that neither a busy dashboard nor a client that guesses tokens keeps an
operator from pausing the tuner.

Invariant: at most ``CALLERS_MAX`` callers have a bucket of each kind, which bounds the memory. The caller that has been silent
longest loses its bucket, and starts with a full one again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streaming.shared.addresses import client_network
from tuner.api.responses import error_response

BODY_BYTES_MAX = 16 * 1024
PLAN_PATH, PLAN_PREVIEW_PATH = "/api/v1/plans", "/page/plan-preview"
PLAN_BYTES_MAX = 2 * 1024 * 1024  # Some 20,000 partitions.
CALLERS_MAX = 1024
# Never refused: a refused health check could make an orchestrator restart the tuner.
HEALTH_PATHS = ("/healthz", "/readyz", "/-/healthy", "/-/ready")
METRICS_PATHS = ("/metrics",)


@dataclass(frozen=True, slots=True)
class RequestRate:
    """A token bucket's refill rate and capacity."""

    per_s: float
    burst: float


READS = RequestRate(per_s=100.0, burst=200.0)
ORDERS = RequestRate(per_s=0.5, burst=10.0)
WRONG_TOKENS = RequestRate(per_s=0.1, burst=10.0)


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at_s: float


class TokenBuckets:
    """One token bucket per caller. Not thread-safe."""

    def __init__(self, rate: RequestRate, monotonic: Callable[[], float], callers_max: int = CALLERS_MAX) -> None:
        self._rate = rate
        self._monotonic = monotonic
        self._callers_max = callers_max
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, caller: str) -> float:
        """Takes a token. Returns 0.0 on success, else the seconds until a token is available."""
        bucket = self._refilled(caller)
        if bucket.tokens >= 1.0:
            bucket.tokens -= 1.0
            return 0.0
        return self._wait_s(bucket)

    def wait_s(self, caller: str) -> float:
        """Returns the seconds until a token is available, without taking one."""
        return self._wait_s(self._refilled(caller))

    def _wait_s(self, bucket: _Bucket) -> float:
        return max(0.0, (1.0 - bucket.tokens) / self._rate.per_s)

    def _refilled(self, caller: str) -> _Bucket:
        now_s = self._monotonic()
        bucket = self._buckets.pop(caller, None)
        if bucket is None:
            bucket = _Bucket(self._rate.burst, now_s)
        bucket.tokens = min(self._rate.burst, bucket.tokens + (now_s - bucket.at_s) * self._rate.per_s)
        bucket.at_s = now_s
        self._buckets[caller] = bucket
        if len(self._buckets) > self._callers_max:
            self._buckets.popitem(last=False)
        return bucket


class RequestLimiter:
    """Middleware: refuses too frequent requests of a caller (429), and bodies that are too large (413)."""

    def __init__(self, app: ASGIApp, reads: TokenBuckets, body_bytes_max: int = BODY_BYTES_MAX) -> None:
        self._app = app
        self._reads = reads
        self._body_bytes_max = body_bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        wait_s = 0.0
        if scope["path"] not in HEALTH_PATHS:
            # Each kind of request of an address has a bucket of its own.
            wait_s = self._reads.take(f"{_kind(scope)} {client_network(peer_address(scope))}")
        if wait_s > 0:
            await error_response(429, "too many requests from this address: send fewer", retry_after_s=wait_s)(
                scope, receive, send
            )
            return
        body_bytes_max = PLAN_BYTES_MAX if scope["path"] in (PLAN_PATH, PLAN_PREVIEW_PATH) else self._body_bytes_max
        length = dict(scope["headers"]).get(b"content-length", b"")
        if length.isdigit() and int(length) > body_bytes_max:
            await error_response(413, f"the body is larger than {body_bytes_max} bytes")(scope, receive, send)
            return
        # The client may send no length or a wrong length, so the bytes are also counted as they arrive. No response has started
        # while a route reads the body, so the exception becomes the response.
        received_bytes = 0

        async def receive_limited() -> Message:
            nonlocal received_bytes
            message = await receive()
            received_bytes += len(message.get("body", b""))
            if received_bytes > body_bytes_max:
                raise HTTPException(413, f"the body is larger than {body_bytes_max} bytes")
            return message

        await self._app(scope, receive_limited, send)


def _kind(scope: Scope) -> str:
    """Returns the kind of a request. AccessGuard limits orders further."""
    if scope["method"] in ("POST", "DELETE"):
        return "order"
    return "scrape" if scope["path"] in METRICS_PATHS else "read"


def peer_address(scope: Any) -> str:
    """Returns the client's address; empty if there is none, as for a Unix socket."""
    client = scope.get("client")
    return str(client[0]) if client else ""
