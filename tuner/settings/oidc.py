"""The section ``tuner.http.oidc`` of the settings file: tokens of an OpenID Connect provider, beside the tuner's own tokens."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

from streaming.shared.addresses import is_https_or_local


class OidcSettings(BaseModel):
    """JSON Web Tokens that the HTTP API accepts, and the roles that they give."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    issuer: str = Field(description="the provider's name, exactly as in the claim iss of its tokens")
    audience: str = Field(description="rheostat's name at the provider; a token for another audience is refused")
    jwks_url: str | None = Field(default=None, description="URL of the provider's public keys (JWKS)")
    jwks_file: str | None = Field(
        default=None,
        description="file with the provider's public keys, instead of jwks_url; read again when it changes",
    )
    jwks_cafile: str | None = Field(
        default=None,
        description="PEM file with the authorities that sign the certificate of jwks_url; none: those of the operating system",
    )
    role_claim: str = Field(
        default="roles",
        pattern=r"^[^.\s]+(\.[^.\s]+)*$",
        description="claim with the caller's roles or groups, a text or a list; with dots for a claim inside another one "
        "(realm_access.roles)",
    )
    read_values: tuple[str, ...] = Field(
        default=("rheostat-read",), description="values of role_claim that may read everything"
    )
    operate_values: tuple[str, ...] = Field(
        default=("rheostat-operate",), description="values of role_claim that may also give orders"
    )
    name_claim: str = Field(
        default="sub", description="claim with the caller's name, which is recorded with every order"
    )

    @model_validator(mode="after")
    def _has_one_source_of_keys(self) -> OidcSettings:
        if (self.jwks_url is None) == (self.jwks_file is None):
            raise ValueError("oidc needs either jwks_url or jwks_file")
        if self.jwks_url is not None and not is_https_or_local(self.jwks_url):
            raise ValueError(
                "jwks_url must be a URL that begins with https:// (http:// only for a host like 127.0.0.1)"
            )
        if not self.read_values and not self.operate_values:
            raise ValueError("read_values and operate_values are both empty, so no token would have a role")
        return self
