"""Checks JSON Web Tokens of an OpenID Connect provider, and maps one of their claims to a role of the API.

The verifier checks the signature (RS256 or ES256, by the provider's keys), issuer, audience and expiry. It allows 30 s for
differences between clocks. The provider's key decides on the algorithm, never the header of the token.
"""

from __future__ import annotations

from typing import Any

import jwt

from tuner.api.auth import ApiCaller, ApiRole, NoRole, TokenRefused, UnknownKey
from tuner.api.oidc_keys import ProviderKeys
from tuner.settings.oidc import OidcSettings

CLOCK_SKEW_S = 30
_TOKEN_CHARS_MAX = 8192
_NAME_CHARS_MAX = 64


class OidcVerifier:
    """Finds the caller of a token of the provider."""

    def __init__(self, settings: OidcSettings, keys: ProviderKeys) -> None:
        self._settings = settings
        self._keys = keys

    @property
    def can_operate(self) -> bool:
        return bool(self._settings.operate_values)

    def await_new_keys(self) -> None:
        """Waits some seconds for keys that the provider may have added."""
        self._keys.await_refresh()

    def find(self, presented: str) -> ApiCaller:
        """Returns the caller of a valid token.

        Raises:
            UnknownKey: the key of the token is not known.
            NoRole: the token is valid, and none of its roles is configured.
            TokenRefused: the token is not valid.
        """
        claims = self._claims(presented)
        name = claims.get(self._settings.name_claim)
        if not isinstance(name, str) or not name or not name.isprintable() or len(name) > _NAME_CHARS_MAX:
            raise TokenRefused(
                f"the token has no usable claim {self._settings.name_claim} (tuner.http.oidc.name_claim), which names the caller"
            )
        values = _texts(claims, self._settings.role_claim)
        if values & set(self._settings.operate_values):
            return ApiCaller(name, ApiRole.OPERATE)
        if values & set(self._settings.read_values):
            return ApiCaller(name, ApiRole.READ)
        raise NoRole(
            f"the claim {self._settings.role_claim} of the token of {name} has none of the values in tuner.http.oidc"
        )

    def _claims(self, presented: str) -> dict[str, Any]:
        if len(presented) > _TOKEN_CHARS_MAX:
            raise TokenRefused("this token is unknown to the tuner")
        try:
            key_id = jwt.get_unverified_header(presented).get("kid")
        except jwt.PyJWTError as error:
            raise TokenRefused("this token is unknown to the tuner") from error
        key = self._keys.find(key_id)
        if key is None:
            raise UnknownKey("the token was signed with a key that tuner.http.oidc does not know")
        try:
            claims: dict[str, Any] = jwt.decode(
                presented,
                key.key,
                algorithms=[key.algorithm_name],
                audience=self._settings.audience,
                issuer=self._settings.issuer,
                leeway=CLOCK_SKEW_S,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.PyJWTError as error:
            raise TokenRefused(_refusal(error)) from error
        return claims


def _refusal(error: jwt.PyJWTError) -> str:
    if isinstance(error, jwt.ExpiredSignatureError):
        return "the token has expired: get a new one from the provider"
    if isinstance(error, jwt.ImmatureSignatureError):
        return "the token is not valid yet: compare the clocks of the tuner and the provider"
    if isinstance(error, jwt.InvalidAudienceError):
        return "the token is for another audience than tuner.http.oidc.audience"
    if isinstance(error, jwt.InvalidIssuerError):
        return "the token is from another issuer than tuner.http.oidc.issuer"
    if isinstance(error, jwt.MissingRequiredClaimError):
        return f"the token has no claim {error.claim}"
    if isinstance(error, jwt.InvalidAlgorithmError):
        return "the token is signed with an algorithm other than RS256 and ES256"
    return "the signature of the token is not valid"


def _texts(claims: dict[str, Any], path: str) -> set[str]:
    """Returns the texts of a claim, which is a text or a list; empty if the claim is missing or of another type."""
    value: Any = claims
    # Auth0 names its claims by URLs. The dots of a URL do not separate parts of a path.
    for part in (path,) if path in claims else path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, str):
        return {value, *value.split()}  # The claim ``scope`` is one text of several words.
    return {item for item in value if isinstance(item, str)} if isinstance(value, list) else set()
