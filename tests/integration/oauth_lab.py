"""Settings of a lab whose clients log in with SASL OAUTHBEARER over TLS, and whose brokers check real signatures."""

from __future__ import annotations

from pathlib import Path

from oauth_kit import AUDIENCE, ISSUER, TokenServer, jwks
from tls_kit import Papers

from rheostat.lab.cluster import LabSpec

_BEARER = "org.apache.kafka.common.security.oauthbearer"


def oauth_spec(signed: Papers, server: TokenServer, folder: Path, *, brokers: int, super_users: str = "") -> LabSpec:
    """Returns a lab whose listener CLIENT accepts the server's tokens, and ends sessions when a token expires."""
    keys = folder / "jwks.json"
    keys.write_text(jwks(*server.keys))
    client = "listener.name.client"
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENT:SASL_SSL",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{client}.oauthbearer.sasl.jaas.config": f"{_BEARER}.OAuthBearerLoginModule required;",
        f"{client}.oauthbearer.sasl.server.callback.handler.class": f"{_BEARER}.OAuthBearerValidatorCallbackHandler",
        f"{client}.oauthbearer.connections.max.reauth.ms": "3600000",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        f"{client}.ssl.keystore.type": "PEM",
        f"{client}.ssl.keystore.location": str(signed.broker),
        "super.users": f"User:ANONYMOUS{super_users}",
    }
    allowed = (
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}",
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={keys}",
    )
    return LabSpec(brokers=brokers, users={"unused": "unused"}, settings=settings, java_options=allowed)
