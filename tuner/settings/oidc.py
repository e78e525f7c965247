"""The section ``tuner.http.oidc`` of the settings file: tokens of an OpenID Connect provider, beside the tuner's own tokens."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

from streaming.shared.addresses import is_https_or_local


class OidcSettings(BaseModel):
    """Access to the HTTP API with the JSON Web Tokens of an OpenID Connect provider, beside the tuner's own tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    issuer: str = Field(description="name of the provider, exactly as in the claim `iss` of its tokens")
    audience: str = Field(
        description="rheostat's name at the provider; rheostat refuses a token whose claim `aud` has another name"
    )
    jwks_url: str | None = Field(default=None, description="URL of the provider's public keys (JWKS)")
    jwks_file: str | None = Field(
        default=None,
        description="file with the provider's public keys, instead of jwks_url; the tuner reads the file again when it changes",
    )
    jwks_cafile: str | None = Field(
        default=None,
        description="PEM file with the certificate authorities (CAs) of jwks_url; without it, the CAs of the operating system",
    )
    role_claim: str = Field(
        default="roles",
        pattern=r"^[^.\s]+(\.[^.\s]+)*$",
        description="claim with the caller's roles or groups, as a text or a list; for a claim inside another claim, both "
        "names with a dot (realm_access.roles)",
    )
    read_values: tuple[str, ...] = Field(
        default=("rheostat-read",), description="a caller with one of these values in role_claim may read"
    )
    operate_values: tuple[str, ...] = Field(
        default=("rheostat-operate",),
        description="a caller with one of these values in role_claim may read and give orders",
    )
    name_claim: str = Field(
        default="sub", description="claim with the caller's name; rheostat records the name with every order"
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
