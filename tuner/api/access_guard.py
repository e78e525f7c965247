"""The doors of the routes: who may read, who may order, who may scrape."""

from __future__ import annotations

import ipaddress
import math
import re
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Annotated, Any

import structlog
from fastapi import HTTPException, Request, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from streaming.shared.addresses import counted_address, is_loopback
from tuner.api.auth import ApiCaller, ApiRole, Tokens
from tuner.api.limits import ORDERS, WRONG_TOKENS, TokenBuckets, peer_address

log = structlog.get_logger("tuner")

LOCAL_CALLER = ApiCaller("anybody on this machine", ApiRole.READ)
_REBOUND = (
    "without a token it answers to localhost or an address in the Host header: ask so, or set tuner.http.read_token"
)
_bearer = HTTPBearer(auto_error=False, description="a token of tuner.http")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]
AccessCheck = Callable[[Request, HTTPAuthorizationCredentials | None], Awaitable[None]]


class AccessGuard:
    """Each door lets through or refuses; who came through is in ``request.state.caller``."""

    def __init__(
        self, tokens: Tokens, monotonic: Callable[[], float] = time.monotonic, orders: TokenBuckets | None = None
    ) -> None:
        """
        Args:
            orders: how many one caller may give.
        """
        self._tokens = tokens
        self._wrong = TokenBuckets(WRONG_TOKENS, monotonic)
        self._orders = orders or TokenBuckets(ORDERS, monotonic)

    async def read(self, request: Request, shown: Credentials) -> None:
        if not self._tokens.needed:
            if not _by_own_name(request.headers):
                raise HTTPException(403, _REBOUND)
            # Reached from this machine alone, or the settings would have been refused.
            request.state.caller = LOCAL_CALLER
            return
        request.state.caller = self._caller(request, shown)

    def reader(self, scope: Scope) -> ApiCaller | None:
        """Who asks, where they may read; None: they may not, and ``read`` says why."""
        headers = Headers(scope=scope)
        if not self._tokens.needed:
            return LOCAL_CALLER if _by_own_name(headers) else None
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        return self._tokens.find(secret) if scheme.lower() == "bearer" else None

    def may_read(self, scope: Scope) -> bool:
        """Whether the caller may read everything, for routes that answer all callers.

        A wrong token is counted; an address with too many of them is told nothing about another one.
        """
        where = counted_address(peer_address(scope))
        if self._wrong.wait_s(where) > 0:
            return False
        if self.reader(scope) is not None:
            return True
        if "authorization" in Headers(scope=scope):
            self._wrong.take(where)
        return False

    async def scrape(self, request: Request, shown: Credentials) -> None:
        """As ``read``, and open to this machine: Prometheus often runs beside the tuner."""
        if not (is_loopback(peer_address(request.scope)) and _by_own_name(request.headers)):
            await self.read(request, shown)

    async def operate(self, request: Request, shown: Credentials) -> None:
        # Whoever tries tokens here is counted, too, where none of them could give an order.
        caller = self._caller(request, shown) if self._tokens.needed else LOCAL_CALLER
        if not self._tokens.can_operate:
            raise HTTPException(
                403,
                "nobody may give orders over HTTP here, as no token with the role operate is set: set "
                "tuner.http.operate_token or tokens_file, or use `rheostat pause | resume | override | release`",
            )
        if not caller.role.covers(ApiRole.OPERATE):
            raise HTTPException(403, f"the token of {caller.name} may read only: giving orders takes the role operate")
        if (wait_s := self._orders.take(caller.name)) > 0:
            raise HTTPException(429, f"too many orders of {caller.name} in a short time", _retry(wait_s))
        request.state.caller = caller

    def _caller(self, request: Request, shown: HTTPAuthorizationCredentials | None) -> ApiCaller:
        if shown is None:
            raise HTTPException(
                401, "a token is needed: send `Authorization: Bearer …`", {"www-authenticate": "Bearer"}
            )
        caller = self._tokens.find(shown.credentials)
        if caller is not None:
            return caller
        where = peer_address(request.scope)
        if (wait_s := self._wrong.take(counted_address(where))) > 0:
            raise HTTPException(429, "too many wrong tokens from this address", _retry(wait_s))
        log.warning("a wrong token over HTTP", address=where, path=request.url.path)
        raise HTTPException(401, "this token is not known here", {"www-authenticate": 'Bearer error="invalid_token"'})


async def declare_bearer_auth(shown: Credentials) -> None:
    """For the API's description, of routes whose door stands before them."""


def route_class_with_check(door: AccessCheck) -> type[APIRoute]:
    """Routes whose door is asked before their body is read: who may not ask is not told what is wrong with the question."""

    class Behind(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handler = super().get_route_handler()

            async def asked(request: Request) -> Response:
                await door(request, await _bearer(request))
                return await handler(request)

            return asked

    return Behind


def caller_of(request: Request) -> ApiCaller:
    found = request.state.caller
    assert isinstance(found, ApiCaller), "this route has no door"
    return found


def _by_own_name(headers: Headers) -> bool:
    """False: under another site's name, as a browser asks for a page whose DNS entry was turned to this machine."""
    name = re.sub(r":\d+$", "", headers.get("host", "")).strip("[]").lower()
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _retry(wait_s: float) -> dict[str, str]:
    return {"retry-after": str(max(1, math.ceil(wait_s)))}
