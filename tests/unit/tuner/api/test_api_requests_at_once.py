"""The limits of requests in progress, per address and in total."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from streaming.shared.connection_limits import SlotLimits
from tuner.api.connection_table import limits_for_descriptors
from tuner.api.requests_at_once import ConcurrentRequestLimiter

LIMIT_S = 5.0


def asked(path: str, address: str) -> dict[str, Any]:
    return {"type": "http", "method": "GET", "path": path, "headers": [], "client": (address, 5000)}


MANY = SlotLimits(9, 9, 9)


@pytest.mark.parametrize(
    ("slow", "refused", "beside"),
    [("/slow", "/api/v1/status", "/metrics"), ("/metrics", "/metrics", "/api/v1/status")],
    ids=["requests", "scrapes"],
)
@pytest.mark.parametrize(
    ("limits", "second"),
    [
        (replace(MANY, per_address_max=2), "192.0.2.1"),
        (replace(MANY, network_max=2), "192.0.2.2"),
        (replace(MANY, total_max=2), "127.0.0.1"),
    ],
    ids=["of_one_address", "from_the_network", "in_all"],
)
def test_requests_at_once_refuse_the_rest_of_their_kind(
    limits: SlotLimits, second: str, slow: str, refused: str, beside: str
) -> None:
    asyncio.run(asyncio.wait_for(_refused_and_answered(limits, second, slow, refused, beside), LIMIT_S))


async def _refused_and_answered(limits: SlotLimits, second: str, slow: str, refused: str, beside: str) -> None:
    may_end = asyncio.Event()
    under_way = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal under_way
        under_way += 1
        if under_way <= 2:
            await may_end.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    both = {"requests": MANY, "scrapes": MANY, "scrapes" if slow == "/metrics" else "requests": limits}
    limited = ConcurrentRequestLimiter(app, replace(limits_for_descriptors(-1), **both))

    async def status(path: str, address: str) -> int:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        await limited(asked(path, address), lambda: may_end.wait(), send)
        return int(sent[0]["status"])

    unread = [asyncio.create_task(status(slow, "192.0.2.1")) for _ in range(2)]
    while under_way < 2:
        await asyncio.sleep(0)
    assert await status(refused, second) == 503
    if limits.network_max == 2:
        assert await status(refused, "127.0.0.1") == 200, "this machine has places of its own"
    assert [await status(path, second) for path in ("/healthz", "/readyz", beside)] == [200] * 3
    may_end.set()
    assert await asyncio.gather(*unread) == [200, 200]
    assert await status(refused, second) == 200
