"""Builds the tuner's HTTP server, with the tokens and the certificate of ``tuner.http``."""

from __future__ import annotations

from collections.abc import Callable

import structlog
from prometheus_client.registry import Collector

from tuner.api.api_state import ApiState, OtherPages
from tuner.api.auth import ApiRole, CredentialsError, Tokens, TokenVerifier, make_token
from tuner.api.metrics import make_registry
from tuner.api.orders_api import OrderService
from tuner.api.plan_service import PlanService
from tuner.api.server import HttpServer, make_app
from tuner.runtime.clock import Clock
from tuner.settings.http import HttpSettings
from tuner.settings.oidc import OidcSettings
from tuner.wiring.status import StatusStores

log = structlog.get_logger("tuner")


class PortError(Exception):
    """The server cannot listen on its port."""


def http_server(
    http: HttpSettings,
    stores: StatusStores,
    process_metrics: Collector | None,
    orders: OrderService,
    *,
    plan_service: PlanService | None = None,
    other_pages: OtherPages = (),
    cycle_s: float,
    clock: Clock,
) -> HttpServer:
    """Returns a server that has bound its port already; the server answers requests once it is started.

    Args:
        process_metrics: metrics of the process itself, which are served together with the metrics of ``stores``.
        orders: records operator orders.
        plan_service: previews and records plans; None if plans are refused.
        other_pages: name and status page of each other cluster.

    Raises:
        PortError: the server cannot listen on its port.
        CredentialsError: the tokens or the certificate cannot be used.
    """
    registry = make_registry(
        stores.throttles,
        stores.quotas,
        process_metrics,
        stores.plans,
        stores.mutations,
        stores.log_dirs,
        stores.lag,
        stores.external,
        stores.cruise_control,
        stores.leadership,
        stores.cordons,
    )
    try:
        app = make_app(
            ApiState(
                stores.observers,
                stores.quotas,
                stores.plans,
                stores.mutations,
                stores.log_dirs,
                stores.lag,
                stores.weeks,
                stores.cordons,
                stores.leadership,
                other_pages,
                stores.journal,
                http.grafana_url,
            ),
            registry,
            cycle_s,
            clock.wall_s,
            tokens=_tokens(http, clock.monotonic_s),
            order_service=orders,
            plan_service=plan_service,
            tls=http.tls_certfile is not None,
        )
        # The hub closes the open event streams of pages, which would otherwise delay the stop.
        return HttpServer(app, http.host, http.port, tls=_certificate(http), on_stop=stores.observers.hub.close)
    except OSError as error:
        raise PortError(f"{http.host}:{http.port}: {error}") from error


def _tokens(http: HttpSettings, monotonic_s: Callable[[], float]) -> Tokens:
    """
    Raises:
        CredentialsError: the file of tokens cannot be used.
    """
    secrets = ((http.read_token, "read token", ApiRole.READ), (http.operate_token, "operate token", ApiRole.OPERATE))
    tokens = [make_token(secret.get_secret_value(), name, role) for secret, name, role in secrets if secret is not None]
    if not http.is_local and http.tls_certfile is None:
        log.warning("tokens cross the network unencrypted: set tuner.http.tls_certfile and tls_keyfile", host=http.host)
    return Tokens(tokens, http.tokens_file, monotonic=monotonic_s, verifier=_verifier(http.oidc))


def _verifier(oidc: OidcSettings | None) -> TokenVerifier | None:
    """
    Raises:
        CredentialsError: the libraries for signatures are not installed.
    """
    if oidc is None:
        return None
    try:
        from tuner.api.oidc import OidcVerifier
        from tuner.api.oidc_keys import ProviderKeys
    except ImportError as error:
        raise CredentialsError(
            f"tuner.http.oidc needs further libraries ({error}): install rheostat with the extra oidc"
        ) from error
    return OidcVerifier(oidc, ProviderKeys(oidc.jwks_url, oidc.jwks_file, oidc.jwks_cafile))


def _certificate(http: HttpSettings) -> tuple[str, str] | None:
    if http.tls_certfile is None or http.tls_keyfile is None:
        return None
    return http.tls_certfile, http.tls_keyfile
