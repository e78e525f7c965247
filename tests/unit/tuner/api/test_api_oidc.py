"""Tokens of an OpenID Connect provider: real signatures, a real server of keys, and each refusal with its sentence."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from api_rig import OPERATE_TOKEN, READ_TOKEN, Rig
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from oauth_kit import AUDIENCE, ISSUER, SigningKey, TokenServer, jwks
from pydantic import ValidationError
from structlog.testing import capture_logs

from tuner.api import oidc_keys
from tuner.api.oidc import OidcVerifier
from tuner.api.oidc_keys import KeysUnavailable, ProviderKeys, parse_keys
from tuner.settings.http import HttpSettings
from tuner.settings.oidc import OidcSettings

RSA, EC, OTHER = SigningKey("rsa"), SigningKey("ec", "ES256"), SigningKey("other")
READ, OPERATE = {"roles": ["rheostat-read"]}, {"roles": ["x", "rheostat-operate"]}


def rig_of(keys: ProviderKeys, **settings: Any) -> Rig:
    oidc = OidcSettings(**{"issuer": ISSUER, "audience": AUDIENCE, "jwks_file": "unused", **settings})
    rig = Rig(verifier=OidcVerifier(oidc, keys))
    rig.cycle()
    return rig


@pytest.fixture
def keys(tmp_path: Path) -> ProviderKeys:
    (tmp_path / "jwks").write_text(jwks(RSA, EC))
    return ProviderKeys(None, str(tmp_path / "jwks"))


@pytest.fixture
def rig(keys: ProviderKeys) -> Rig:
    return rig_of(keys)


def answer(rig: Rig, token: str) -> tuple[int, str]:
    rig.clock.now_s += 60  # Refills the bucket of wrong tokens.
    got = rig.get("/api/v1/status", token)
    return got.status_code, str(got.json().get("detail", ""))


@pytest.mark.parametrize("key", [RSA, EC], ids=["RS256", "ES256"])
def test_valid_token_may_read(rig: Rig, key: SigningKey) -> None:
    assert answer(rig, key.token(**READ)) == (200, "")
    assert answer(rig, READ_TOKEN) == (200, "")


def test_order_records_the_name_in_the_token(rig: Rig) -> None:
    taken = rig.http.post(
        "/api/v1/pause", headers={"authorization": f"Bearer {RSA.token('kim@example.com', **OPERATE)}"}
    )
    assert taken.status_code == 202, taken.text
    assert rig.order_service.orders.pause is not None
    assert rig.order_service.orders.pause.by.startswith("kim@example.com")
    refused = rig.http.post("/api/v1/pause", headers={"authorization": f"Bearer {RSA.token(**READ)}"})
    assert (refused.status_code, refused.json()["detail"]) == (
        403, "the token of rheostat may only read: an order needs the role operate"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"lifetime_s": -31.0}, "the token has expired: get a new one from the provider"),
        ({"nbf": time.time() + 86_400}, "the token is not valid yet"),
        ({"aud": "another"}, "the token is for another audience than tuner.http.oidc.audience"),
        ({"iss": "https://other.test"}, "the token is from another issuer than tuner.http.oidc.issuer"),
        ({"exp": None}, "the token has no claim exp"),
        ({"aud": None}, "the token has no claim aud"),
        ({"sub": "x" * 65}, "the token has no usable claim sub"),
        ({"sub": "two\nlines"}, "the token has no usable claim sub"),
    ],
)
def test_token_with_wrong_claim_is_refused(rig: Rig, claims: dict[str, Any], why: str) -> None:
    status, detail = answer(rig, RSA.token(**READ, **claims))
    assert status == 401
    assert detail.startswith(why)


def test_clock_skew_of_some_seconds_is_allowed(rig: Rig) -> None:
    assert answer(rig, RSA.token(**READ, lifetime_s=-20.0))[0] == 200
    assert answer(rig, RSA.token(**READ, nbf=time.time() + 20))[0] == 200


@pytest.mark.parametrize("roles", [{}, {"roles": []}, {"roles": ["x"]}, {"roles": 7}, {"roles": {"rheostat-read": 1}}])
def test_token_without_configured_role_is_forbidden(rig: Rig, roles: dict[str, Any]) -> None:
    status, detail = answer(rig, RSA.token(**roles))
    assert (status, detail) == (
        403, "the claim roles of the token of rheostat has none of the values in tuner.http.oidc"
    )  # fmt: skip


def test_role_may_be_in_a_nested_or_namespaced_claim_or_a_scope(keys: ProviderKeys) -> None:
    nested = rig_of(keys, role_claim="realm_access.roles", read_values=("viewer",))
    assert answer(nested, RSA.token(realm_access={"roles": ["viewer"]}))[0] == 200
    namespaced = rig_of(keys, role_claim="https://example.org/roles")
    assert answer(namespaced, RSA.token(**{"https://example.org/roles": ["rheostat-read"]}))[0] == 200
    assert answer(namespaced, RSA.token(roles=["rheostat-read"]))[0] == 403
    scope = rig_of(keys, role_claim="scope", read_values=("rheostat.read",))
    assert answer(scope, RSA.token(scope="openid rheostat.read"))[0] == 200
    assert answer(scope, RSA.token(scope="openid rheostat.reading"))[0] == 403


def unsigned(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


CLAIMS = {"iss": ISSUER, "aud": AUDIENCE, "sub": "kim", "exp": time.time() + 600, **OPERATE}


def test_forged_tokens_are_refused(rig: Rig) -> None:
    public_pem = RSA.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head, body, _ = unsigned({"alg": "HS256", "kid": "rsa"}, CLAIMS).split(".")
    mac = hmac.new(public_pem, f"{head}.{body}".encode(), hashlib.sha256).digest()
    good = RSA.token(**READ)
    other_body = RSA.token(**OPERATE).split(".")[1]
    forged = {
        "no signature": unsigned({"alg": "none", "kid": "rsa"}, CLAIMS),
        "the public key as a secret": f"{head}.{body}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}",
        "the key of another": jwt.encode(CLAIMS, OTHER.private, "RS256", headers={"kid": "rsa"}),
        "another algorithm of the same key": jwt.encode(CLAIMS, RSA.private, "RS512", headers={"kid": "rsa"}),
        "another body": ".".join([good.split(".")[0], other_body, good.split(".")[2]]),
        "an own key in the header": jwt.encode(
            CLAIMS, OTHER.private, "RS256", headers={"jwk": OTHER.jwk(), "kid": "rsa"}
        ),
        "no JSON": "a.b.c",
        "too long": RSA.token(**READ, padding="x" * 9000),
    }
    for kind, token in forged.items():
        status, detail = answer(rig, token)
        assert status == 401, kind
        assert token not in detail


def test_new_key_is_found_and_fetches_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc_keys, "DEMAND_S_MIN", 0.0)
    server = TokenServer(RSA)
    with server.serving():
        keys = ProviderKeys(f"{server.url}/jwks", None)
        try:
            rig = rig_of(keys)
            assert answer(rig, RSA.token(**READ))[0] == 200
            server.keys = (RSA, OTHER)
            assert answer(rig, OTHER.token(**READ))[0] == 200
            monkeypatch.setattr(oidc_keys, "DEMAND_S_MIN", 60.0)
            asked = server.asked
            for number in range(5):
                unknown = SigningKey.__new__(SigningKey)
                unknown.kid, unknown.algorithm, unknown.private = f"unknown-{number}", "RS256", OTHER.private
                status, detail = answer(rig, unknown.token(**READ))
                assert (status, detail) == (401, "the token was signed with a key that tuner.http.oidc does not know")
            assert server.asked == asked
        finally:
            keys.close()


def test_provider_away_keeps_known_keys_and_static_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc_keys, "DEMAND_S_MIN", 0.0)
    server = TokenServer(RSA)
    with server.serving():
        keys = ProviderKeys(f"{server.url}/jwks", None)
        keys.await_refresh()
    try:
        rig = rig_of(keys)
        assert answer(rig, OTHER.token(**READ))[0] == 401
        assert answer(rig, RSA.token(**READ))[0] == 200
        assert answer(rig, OPERATE_TOKEN)[0] == 200
    finally:
        keys.close()


def test_redirect_to_other_keys_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc_keys, "DEMAND_S_MIN", 0.0)
    server = TokenServer(RSA)
    server.mode = "redirect"
    with server.serving(), capture_logs() as logs:
        keys = ProviderKeys(f"{server.url}/jwks", None)
        try:
            keys.await_refresh()
            assert keys.find(RSA.kid) is None
        finally:
            keys.close()
    refused = f"{server.url}/jwks answers with the status 302; a redirect is not followed: set jwks_url to its target"
    assert refused in {line["error"] for line in logs}


def test_provider_that_never_answered_leaves_static_tokens() -> None:
    keys = ProviderKeys("http://127.0.0.1:9/jwks", None)
    try:
        rig = rig_of(keys)
        assert answer(rig, READ_TOKEN)[0] == 200
        assert answer(rig, RSA.token(**READ)) == (
            401,
            "the token was signed with a key that tuner.http.oidc does not know",
        )
    finally:
        keys.close()


def test_file_of_keys_is_read_again_unless_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc_keys, "_FILE_CHECK_S", 0.0)
    file = tmp_path / "jwks"
    file.write_text(jwks(RSA))
    rig = rig_of(ProviderKeys(None, str(file)))
    file.write_text("{")
    assert answer(rig, RSA.token(**READ))[0] == 200
    (tmp_path / "new").write_text(jwks(OTHER))
    os.replace(tmp_path / "new", file)
    assert answer(rig, OTHER.token(**READ))[0] == 200
    assert answer(rig, RSA.token(**READ))[0] == 401


@pytest.mark.parametrize(
    "body",
    [
        b"<html>", b"[]", b'{"keys": 7}', b'{"keys": []}', b'{"keys": [7]}', b'{"keys": [{"kty": "RSA", "kid": "x"}]}',
        json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "x"}]}).encode(),
        json.dumps({"keys": [{**RSA.jwk(), "use": "enc"}]}).encode(),
        json.dumps({"keys": [{**RSA.jwk(), "alg": "HS256"}]}).encode(),
        json.dumps({"keys": [{**EC.jwk(), "crv": "P-521", "alg": "ES512"}]}).encode(),
    ],
)  # fmt: skip
def test_unusable_keys_are_refused(body: bytes) -> None:
    with pytest.raises(KeysUnavailable):
        parse_keys(body, "https://idp/jwks")


def test_settings_need_exactly_one_source_of_keys() -> None:
    common = {"issuer": ISSUER, "audience": AUDIENCE}
    for wrong in (
        {},
        {"jwks_url": "https://idp", "jwks_file": "f"},
        {"jwks_url": "idp"},
        {"jwks_url": "http://idp/jwks"},
    ):
        with pytest.raises(ValidationError, match="jwks_url"):
            OidcSettings(**common, **wrong)
    oidc = OidcSettings(**common, jwks_url="https://idp/jwks")
    assert HttpSettings(host="0.0.0.0", oidc=oidc).has_tokens
