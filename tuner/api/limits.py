"""How much one caller may ask: so many requests, so large, that the tuner never waits for those who look at it.

Intuition: a bucket fills at a rate and holds a burst; a request takes one token out of it, or is told when there will be one.
Reads, orders and wrong tokens have buckets of their own, so that neither a busy dashboard nor somebody who guesses keeps an
operator from pausing.

Invariant: of callers that come and go so many are remembered and no more; who is forgotten begins with a full bucket.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streaming.shared.addresses import counted_address
from tuner.api.responses import error_response

BODY_BYTES_MAX = 16 * 1024
CALLERS_MAX = 1024
# Cheaper to answer than to refuse; and told "too many requests", who probes restarts the tuner.
HEALTH_PATHS = ("/healthz", "/readyz", "/-/healthy", "/-/ready")
METRICS_PATHS = ("/metrics",)


@dataclass(frozen=True, slots=True)
class RequestRate:
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
    """One a caller. To be used by one thread."""

    def __init__(self, rate: RequestRate, monotonic: Callable[[], float], callers_max: int = CALLERS_MAX) -> None:
        self._rate = rate
        self._monotonic = monotonic
        self._callers_max = callers_max
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, caller: str) -> float:
        """0.0: it may. Else the seconds until it may."""
        bucket = self._now(caller)
        if bucket.tokens >= 1.0:
            bucket.tokens -= 1.0
            return 0.0
        return self._wait_s(bucket)

    def wait_s(self, caller: str) -> float:
        """The same without taking anything."""
        return self._wait_s(self._now(caller))

    def _wait_s(self, bucket: _Bucket) -> float:
        return max(0.0, (1.0 - bucket.tokens) / self._rate.per_s)

    def _now(self, caller: str) -> _Bucket:
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
    """Refuses requests of a caller that asks too often (429), and bodies that are too large (413)."""

    def __init__(self, app: ASGIApp, reads: TokenBuckets, body_bytes_max: int = BODY_BYTES_MAX) -> None:
        self._app = app
        self._reads = reads
        self._body_bytes_max = body_bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        wait_s = (
            0.0
            if scope["path"] in HEALTH_PATHS
            else self._reads.take(f"{_kind(scope)} {counted_address(peer_address(scope))}")
        )
        if wait_s > 0:
            await error_response(429, "too many requests from this address: ask less often", retry_after_s=wait_s)(
                scope, receive, send
            )
            return
        length = dict(scope["headers"]).get(b"content-length", b"")
        if length.isdigit() and int(length) > self._body_bytes_max:
            await error_response(413, f"the body is larger than {self._body_bytes_max} bytes")(scope, receive, send)
            return
        # A body without a length, or with a wrong one, is counted as it comes; the app has not begun to answer then.
        came = 0

        async def counted() -> Message:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > self._body_bytes_max:
                raise HTTPException(413, f"the body is larger than {self._body_bytes_max} bytes")
            return message

        await self._app(scope, counted, send)


def _kind(scope: Scope) -> str:
    """Orders and scrapes have a bucket each, so that readers keep neither out; of orders the gate has a smaller one."""
    if scope["method"] in ("POST", "DELETE"):
        return "order"
    return "scrape" if scope["path"] in METRICS_PATHS else "read"


def peer_address(scope: Any) -> str:
    """The address of whoever asks; an empty one where there is none, as of a Unix socket."""
    client = scope.get("client")
    return str(client[0]) if client else ""
