"""How many requests are answered at once, of one address and in all."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tuner.api.connection_table import limits_within
from tuner.api.requests_at_once import RequestsAtOnce

LIMIT_S = 5.0


def asked(path: str, address: str) -> dict[str, Any]:
    return {"type": "http", "method": "GET", "path": path, "headers": [], "client": (address, 5000)}


@pytest.mark.parametrize(
    ("limits", "second"),
    [
        ({"requests_per_address": 2}, "192.0.2.1"),
        ({"requests_from_network": 2}, "192.0.2.2"),
        ({"requests": 2}, "127.0.0.1"),
    ],
    ids=["of one address", "from the network", "in all"],
)
def test_requests_at_once_refuse_the_rest_but_health_checks(limits: dict[str, int], second: str) -> None:
    asyncio.run(asyncio.wait_for(_refused_and_answered(limits, second), LIMIT_S))


async def _refused_and_answered(limits: dict[str, int], second: str) -> None:
    may_end = asyncio.Event()
    under_way = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal under_way
        under_way += 1
        if scope["path"] == "/slow":
            await may_end.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    limited = RequestsAtOnce(app, replace(limits_within(-1), **limits))

    async def status(path: str, address: str) -> int:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        await limited(asked(path, address), lambda: may_end.wait(), send)
        return int(sent[0]["status"])

    slow = [asyncio.create_task(status("/slow", "192.0.2.1")) for _ in range(2)]
    while under_way < 2:
        await asyncio.sleep(0)
    assert await status("/api/v1/status", second) == 503
    if "requests_from_network" in limits:
        assert await status("/api/v1/status", "127.0.0.1") == 200, "this machine has places of its own"
    assert [await status(path, second) for path in ("/healthz", "/readyz", "/metrics")] == [200] * 3
    may_end.set()
    assert await asyncio.gather(*slow) == [200, 200]
    assert await status("/api/v1/status", second) == 200
