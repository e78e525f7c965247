"""The tuner's HTTP server: the application, its middleware, and the server thread.

/, /moves, /brokers, /controller, /decisions/ID
                           the views of the status page
/runbook                   what to do about each alert
/metrics                   for Prometheus
/healthz, /-/healthy       200 while cycles keep ending, else 503
/readyz, /-/ready          200 while the cluster and fresh signals can be read, else 503 and what is missing; host names and errors
                           only with read access
/readyz?standby=true       200 also while the tuner is a standby, for rolling updates
/status                    the last cycle as raw JSON
/api/v1/...                read routes, orders, events
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry

from streaming.shared.metric_page import render_page
from streaming.shared.process_metrics import installed_version
from streaming.shared.thread_watch import VitalThread
from tuner.api.access_guard import AccessGuard
from tuner.api.api_state import ApiState
from tuner.api.auth import Tokens
from tuner.api.certificate import Certificate
from tuner.api.expected_end import ends_at_ms
from tuner.api.health import TunerHealth
from tuner.api.lag_status_store import lag_json
from tuner.api.limits import READS, RequestLimiter, TokenBuckets
from tuner.api.log_rate import limit_library_logs
from tuner.api.order_routes import order_routes
from tuner.api.orders_api import OrderService
from tuner.api.page_routes import page_routes
from tuner.api.plan_routes import plan_order_routes
from tuner.api.plan_service import PlanService
from tuner.api.requests_at_once import ConcurrentRequestLimiter
from tuner.api.response_cache import ResponseCache
from tuner.api.responses import SecurityHeaders, SharedBody, error_response, json_bytes, json_bytes_response
from tuner.api.routes import read_routes
from tuner.api.status_store import StatusStore
from tuner.api.uvicorn_server import LimitedServer

STOP_S_MAX = 10.0
_UNREAD_MS_MAX = 60_000  # The kernel closes a connection whose peer acknowledges no data for this long.
_MESSAGES_MAX = 5
_QUOTABLE_KEY = re.compile(r"[A-Za-z_.]{1,40}")  # Another text may be a misplaced token, so messages do not quote it.


def make_app(
    state: ApiState,
    registry: CollectorRegistry,
    cycle_s: float,
    wall_clock: Callable[[], float],
    *,
    tokens: Tokens | None = None,
    order_service: OrderService | None = None,
    plan_service: PlanService | None = None,
    reads: TokenBuckets | None = None,
    orders: TokenBuckets | None = None,
    monotonic: Callable[[], float] = time.monotonic,
    tls: bool = False,
) -> FastAPI:
    """Returns the application with all routes and middleware.

    Args:
        cycle_s: interval of the tuner's cycles.
        order_service: records orders; None if orders are refused.
        plan_service: previews and records plans; None if plans are refused.
        reads: rate limit for the requests of one address.
        orders: rate limit for the orders of one caller.
        tls: whether the server speaks TLS.
    """
    app = FastAPI(
        title="rheostat tuner",
        version=installed_version(),
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        description="State and decisions of the tuner, and orders to it.",
    )
    guard = AccessGuard(tokens or Tokens(), monotonic, orders)
    app.add_middleware(ResponseCache, guard=guard)
    app.add_middleware(RequestLimiter, reads=reads or TokenBuckets(READS, monotonic))
    app.add_middleware(ConcurrentRequestLimiter)
    app.add_middleware(SecurityHeaders, tls=tls)  # The middleware added last is the outermost.
    app.add_exception_handler(RequestValidationError, _answer_invalid_request)
    app.include_router(read_routes(state, guard, app.openapi))
    app.include_router(order_routes(state.observers, guard, order_service))
    app.include_router(plan_order_routes(state.observers, guard, plan_service))
    app.include_router(page_routes(state, guard, plan_service))
    _add_health_routes(app, state.observers.status, guard, cycle_s)

    def stamp_of_this_second() -> object:
        return state.version(), int(wall_clock())

    metrics_body = SharedBody(lambda: render_page(registry, state.make_yielder()), stamp_of_this_second)
    status_body = SharedBody(lambda: json_bytes(_status(state)), stamp_of_this_second)

    # Plain functions: FastAPI runs them in its thread pool, so that building a large body does not block the server.
    @app.get("/metrics", dependencies=[Depends(guard.scrape)], include_in_schema=False)
    def metrics() -> Response:
        return Response(metrics_body.body(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/status", dependencies=[Depends(guard.read)], include_in_schema=False)
    def status() -> Response:
        return json_bytes_response(status_body.body())

    return app


def _add_health_routes(app: FastAPI, store: StatusStore, guard: AccessGuard, cycle_s: float) -> None:
    health = TunerHealth(store, cycle_s)

    @app.get("/healthz", include_in_schema=False)
    @app.get("/-/healthy", include_in_schema=False)
    async def healthz() -> Response:
        fault = health.fault()
        return Response(f"{fault or 'ok'}\n", status_code=200 if fault is None else 503)

    @app.get("/readyz", include_in_schema=False)
    @app.get("/-/ready", include_in_schema=False)
    async def readyz(request: Request, standby: bool = False) -> Response:
        ready, why = store.ready() if guard.may_read(request.scope) else store.public_readiness()
        return Response(f"{why}\n", status_code=200 if ready or (standby and store.stands_by) else 503)


def _status(state: ApiState) -> dict[str, Any]:
    store = state.observers.status
    ready, why = store.ready()
    result = store.snapshot()
    return {
        "cluster": store.cluster,
        "ready": ready,
        "ready_text": why,
        "dry_run": store.dry_run,
        "dry_run_by_default": store.dry_run_by_default,
        "rate_bytes_per_s_max": store.limits.rate_bytes_per_s_max,
        "ends_at_ms": ends_at_ms(result, state.plans.snapshot()),
        **result.as_json(),
        "quotas": state.quotas.as_json(),
        "log_dirs": state.log_dirs.as_json(),
        "cordons": state.cordons.as_json(),
        "leadership": state.leadership.as_json(),
        "replication_lag": lag_json(state.lag.snapshot()),
    }


async def _answer_invalid_request(request: Request, error: Exception) -> Response:  # noqa: ARG001 - the shape of a handler
    """Answers an invalid request with one sentence. The sentence quotes no value of the request, which may contain a secret."""
    assert isinstance(error, RequestValidationError)
    faults = []
    for fault in error.errors()[:_MESSAGES_MAX]:
        key = ".".join(str(part) for part in fault["loc"] if part not in ("body", "query", "path")) or "the body"
        if fault["type"] == "missing":
            faults.append(f"{key} is missing")
        elif fault["type"] == "extra_forbidden":
            faults.append(f"{key if _QUOTABLE_KEY.fullmatch(key) else 'a key that was sent'} is unknown")
        else:
            faults.append(f"{key}: {str(fault['msg'])[:1].lower()}{str(fault['msg'])[1:]}")
    return error_response(422, "; ".join(faults))


class HttpServer:
    """Runs uvicorn in a thread of its own. The socket is bound in the constructor, so that a taken port raises an error."""

    def __init__(
        self,
        app: FastAPI,
        host: str,
        port: int,
        *,
        tls: tuple[str, str] | None = None,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            tls: the paths of certificate and key; changed files are read again.
            on_stop: called before the stop; closes the endless event streams.

        Raises:
            OSError: the port cannot be bound.
            CredentialsError: the certificate or the key cannot be used.
        """
        self._on_stop = on_stop
        self._certificate = Certificate(*tls) if tls is not None else None
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux only; accepted connections inherit it.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD_MS_MAX)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # Without TCP_NODELAY the kernel delays the body of a response by 40 ms (delayed acknowledgement of its head). asyncio does
        # not set the option on these connections. Accepted connections inherit it.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.bind((host, port))
        self._socket.listen()  # From now on, clients that connect wait until the server runs, instead of being refused.
        self.port: int = self._socket.getsockname()[1]
        self._server = LimitedServer(app, self._socket, self._certificate)
        limit_library_logs()  # After uvicorn has configured its loggers.
        self._thread = VitalThread(target=self._serve, name="http", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _serve(self) -> None:
        self._server.run()
        if not self._server.should_exit:
            raise RuntimeError("the HTTP server has stopped unexpectedly")

    def reload_certificate(self) -> None:
        """Makes the server read certificate and key again within seconds; any thread may call it."""
        if self._certificate is not None:
            self._certificate.request_reload()

    def stop(self) -> None:
        self._on_stop()
        self._server.should_exit = True
        self._thread.join(timeout=STOP_S_MAX)
        self._socket.close()
