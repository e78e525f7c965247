"""Access checks of the HTTP routes: reading, giving orders, scraping metrics.

Without configured tokens the tuner listens on this machine only (the settings enforce it), and any local caller may read.
"""

from __future__ import annotations

import ipaddress
import math
import re
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Annotated, Any

import structlog
from fastapi import HTTPException, Request, Security
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from streaming.shared.addresses import client_network, is_loopback
from tuner.api.auth import ApiCaller, ApiRole, NoRole, TokenRefused, Tokens, UnknownKey
from tuner.api.limits import ORDERS, WRONG_TOKENS, TokenBuckets, peer_address

log = structlog.get_logger("tuner")

LOCAL_CALLER = ApiCaller("a local caller", ApiRole.READ)
_FOREIGN_HOST_NAME = (
    "without a token the Host header must be localhost or an IP address: use a URL with one of them, or set "
    "tuner.http.read_token"
)
_bearer = HTTPBearer(auto_error=False, description="a token of tuner.http")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]
AccessCheck = Callable[[Request, HTTPAuthorizationCredentials | None], Awaitable[None]]


class AccessGuard:
    """Checks each request's token, and stores the caller in ``request.state.caller``."""

    def __init__(
        self, tokens: Tokens, monotonic: Callable[[], float] = time.monotonic, orders: TokenBuckets | None = None
    ) -> None:
        """
        Args:
            orders: rate limit for the orders of one caller.
        """
        self._tokens = tokens
        self._wrong_tokens = TokenBuckets(WRONG_TOKENS, monotonic)
        self._orders = orders or TokenBuckets(ORDERS, monotonic)

    @property
    def needs_token(self) -> bool:
        """Whether a caller has to send a token in order to read."""
        return self._tokens.are_configured

    async def read(self, request: Request, credentials: Credentials) -> None:
        if not self.needs_token:
            if not _has_local_host_name(request.headers):
                raise HTTPException(403, _FOREIGN_HOST_NAME)
            # Only this machine can connect: without tokens the settings refuse any other listen address.
            request.state.caller = LOCAL_CALLER
            return
        request.state.caller = await self._caller(request, credentials)

    def find_reader(self, scope: Scope) -> ApiCaller | None:
        """Returns the caller if it may read, else None. Counts no wrong tokens: ``read`` gets the same request next, and counts
        them."""
        headers = Headers(scope=scope)
        if not self.needs_token:
            return LOCAL_CALLER if _has_local_host_name(headers) else None
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        try:
            return self._tokens.find(secret)
        except TokenRefused:
            return None

    def may_read(self, scope: Scope) -> bool:
        """Returns whether the caller may read everything, for routes that answer every caller with more or less detail.

        Counts wrong tokens. After too many of them from an address, its tokens are not checked for a while, so these routes give no
        second way to guess tokens.
        """
        network = client_network(peer_address(scope))
        if self._wrong_tokens.wait_s(network) > 0:
            return False
        if self.find_reader(scope) is not None:
            return True
        if "authorization" in Headers(scope=scope):
            self._wrong_tokens.take(network)
        return False

    async def scrape(self, request: Request, credentials: Credentials) -> None:
        """Checks as ``read`` does, but lets this machine scrape without a token: Prometheus often runs beside the tuner."""
        if not (is_loopback(peer_address(request.scope)) and _has_local_host_name(request.headers)):
            await self.read(request, credentials)

    async def operate(self, request: Request, credentials: Credentials) -> None:
        # The token is checked first, so that wrong tokens are counted even if no token could give an order.
        caller = await self._caller(request, credentials) if self.needs_token else LOCAL_CALLER
        if not self._tokens.can_operate:
            raise HTTPException(
                403,
                "orders over HTTP are disabled, as no token with the role operate is configured: set "
                "tuner.http.operate_token, tokens_file or oidc, or use `rheostat pause | resume | override | release`",
            )
        if not caller.role.covers(ApiRole.OPERATE):
            raise HTTPException(403, f"the token of {caller.name} may only read: an order needs the role operate")
        if (wait_s := self._orders.take(caller.name)) > 0:
            raise HTTPException(
                429,
                f"too many orders from {caller.name} in a short time: try again after the time in Retry-After",
                _retry_after(wait_s),
            )
        request.state.caller = caller

    async def _caller(self, request: Request, credentials: HTTPAuthorizationCredentials | None) -> ApiCaller:
        if credentials is None:
            raise HTTPException(
                401, "a token is needed: send `Authorization: Bearer …`", {"www-authenticate": "Bearer"}
            )
        address, why = peer_address(request.scope), "this token is unknown to the tuner"
        try:
            try:
                caller = self._tokens.find(credentials.credentials)
            except UnknownKey:
                # Each wait holds a thread, so an address that has sent too many wrong tokens does not get one.
                if self._wrong_tokens.wait_s(client_network(address)) > 0:
                    raise
                await run_in_threadpool(self._tokens.await_new_keys)
                caller = self._tokens.find(credentials.credentials)
            if caller is not None:
                return caller
        except NoRole as error:
            raise HTTPException(403, str(error)) from error
        except TokenRefused as error:
            why = str(error)
        if (wait_s := self._wrong_tokens.take(client_network(address))) > 0:
            raise HTTPException(429, "too many wrong tokens from this address", _retry_after(wait_s))
        log.warning("an HTTP request with a wrong token was refused", address=address, path=request.url.path, why=why)
        raise HTTPException(401, why, {"www-authenticate": 'Bearer error="invalid_token"'})


async def declare_bearer_auth(credentials: Credentials) -> None:
    """Declares bearer authentication in the OpenAPI description, for routes that are checked by their route class."""


def route_class_with_check(check: AccessCheck) -> type[APIRoute]:
    """Returns a route class that checks access before it reads the body.

    An unauthorised caller is refused with 401 or 403 even if its body is invalid, and sees no error about the body.
    """

    class CheckedRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handler = super().get_route_handler()

            async def check_and_handle(request: Request) -> Response:
                await check(request, await _bearer(request))
                return await handler(request)

            return check_and_handle

    return CheckedRoute


def caller_of(request: Request) -> ApiCaller:
    """Returns the caller that an access check has stored in the request."""
    caller = request.state.caller
    assert isinstance(caller, ApiCaller), "this route has no access check"
    return caller


def caller_text(request: Request) -> str:
    """Returns the author of an order for the journal: the token's name and the client's address."""
    return f"{caller_of(request).name} over HTTP from {peer_address(request.scope) or 'this machine'}"


def _has_local_host_name(headers: Headers) -> bool:
    """Returns whether the Host header names localhost or an address.

    Any other name may belong to a foreign web site whose DNS entry points to this machine (DNS rebinding).
    """
    name = re.sub(r":\d+$", "", headers.get("host", "")).strip("[]").lower()
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _retry_after(wait_s: float) -> dict[str, str]:
    return {"retry-after": str(max(1, math.ceil(wait_s)))}
