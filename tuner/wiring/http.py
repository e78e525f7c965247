"""The tuner's HTTP server, with the tokens and the certificate of ``tuner.http``."""

from __future__ import annotations

from collections.abc import Callable

import structlog
from prometheus_client import CollectorRegistry

from tuner.api.auth import AccessError, ApiRole, Tokens, token
from tuner.api.observers import Observers
from tuner.api.orders_api import OrderService
from tuner.api.plan_status_store import PlanStatusStore
from tuner.api.quota_status_store import QuotaStatusStore
from tuner.api.server import HttpServer, make_app
from tuner.api.status_store import StatusStore
from tuner.settings.http import HttpSettings

log = structlog.get_logger("tuner")


class PortError(Exception):
    """The HTTP port cannot be had."""


class TokensError(PortError):
    """Tokens or certificates of tuner.http cannot be used."""


def door(
    http: HttpSettings,
    board: StatusStore,
    quota_board: QuotaStatusStore,
    plan_board: PlanStatusStore,
    watched: Observers,
    registry: CollectorRegistry,
    desk: OrderService,
    *,
    cycle_s: float,
    wall_clock: Callable[[], float],
    monotonic: Callable[[], float],
) -> HttpServer:
    """It has its port, and answers once it is started.

    Args:
        desk: takes people's orders.

    Raises:
        PortError: the HTTP port cannot be had.
        TokensError: tokens or certificates cannot be used.
    """
    try:
        app = make_app(
            board,
            quota_board,
            registry,
            cycle_s,
            wall_clock,
            watched=watched,
            plans=plan_board,
            tokens=_tokens(http, monotonic),
            desk=desk,
            tls=http.tls_certfile is not None,
        )
        return HttpServer(app, http.host, http.port, tls=_certificate(http), on_stop=watched.hub.end)
    except AccessError as error:
        raise TokensError(str(error)) from error
    except OSError as error:
        raise PortError(f"{http.host}:{http.port}: {error}") from error


def _tokens(http: HttpSettings, monotonic: Callable[[], float]) -> Tokens:
    """
    Raises:
        AccessError: the file of tokens cannot be used.
    """
    given = ((http.read_token, "read token", ApiRole.READ), (http.operate_token, "operate token", ApiRole.OPERATE))
    found = [token(secret.get_secret_value(), name, role) for secret, name, role in given if secret is not None]
    if not http.is_local and http.tls_certfile is None:
        log.warning("tokens cross the network as they are: set tuner.http.tls_certfile and tls_keyfile", host=http.host)
    return Tokens(found, http.tokens_file, monotonic=monotonic)


def _certificate(http: HttpSettings) -> tuple[str, str] | None:
    if http.tls_certfile is None or http.tls_keyfile is None:
        return None
    return http.tls_certfile, http.tls_keyfile
