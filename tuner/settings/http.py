"""The section ``tuner.http`` of the settings file: address, tokens and certificate of the HTTP server."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from streaming.shared.addresses import is_local_host
from streaming.shared.metrics_settings import token_problem
from tuner.settings.oidc import OidcSettings

# By address that stands for all interfaces: the address at which this machine reaches its own server.
_LOCAL_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


class HttpSettings(BaseModel):
    """The HTTP server with the status page, /metrics, /healthz, /readyz and /api/v1."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = Field(
        default="127.0.0.1",
        description="address to listen on; if other machines can reach this address, a token is required",
    )
    port: int = Field(default=9464, ge=0, le=65535, description="port to listen on; 0: any free port")
    page_url: str | None = Field(
        default=None,
        pattern=r"^https?://\S+$",
        description="address of the status page for browsers; the pages of other clusters link to it. If absent, an "
        "address with `host` and `port`",
    )
    grafana_url: str | None = Field(
        default=None,
        pattern=r"^https?://\S+$",
        description="address of Grafana for browsers, such as https://grafana.example.org; each view of the status page then "
        "links to its dashboard",
    )
    read_token: SecretStr | None = Field(
        default=None,
        description="bearer token of clients that may read; better set as environment variable RHEOSTAT_TUNER__HTTP__READ_TOKEN",
    )
    operate_token: SecretStr | None = Field(
        default=None,
        description="bearer token of clients that may read and give orders (pause, resume, override, release); better set as "
        "environment variable RHEOSTAT_TUNER__HTTP__OPERATE_TOKEN",
    )
    tokens_file: str | None = Field(
        default=None,
        description="file with a token for each user. Each line has a role (`read` or `operate`), a name and a token; rheostat "
        "records the name with every order. The tuner reads the file again when it changes",
    )
    oidc: OidcSettings | None = Field(
        default=None,
        description="also accepts the tokens of an OpenID Connect provider; needs rheostat with the extra oidc",
    )
    tls_certfile: str | None = Field(
        default=None, description="PEM file with the certificate of the server; with it the server uses HTTPS"
    )
    tls_keyfile: str | None = Field(default=None, description="PEM file with the key of tls_certfile")

    # Validators of the whole section, because pydantic's error about a single key would show its value, the token.
    @model_validator(mode="after")
    def _check_tokens(self) -> HttpSettings:
        for name, token in (("read_token", self.read_token), ("operate_token", self.operate_token)):
            if token is not None and (fault := token_problem(token.get_secret_value())) is not None:
                raise ValueError(f"{name} {fault}")
        if (
            self.read_token is not None
            and self.operate_token is not None
            and self.read_token.get_secret_value() == self.operate_token.get_secret_value()
        ):
            raise ValueError(
                "read_token and operate_token are the same, so every reader could give orders: make another token"
            )
        return self

    @model_validator(mode="after")
    def _check_network_access(self) -> HttpSettings:
        if not self.is_local and not self.has_tokens:
            raise ValueError(
                f"host {self.host} can be reached from other machines, and no token is set, so the tuner does not start: set "
                "read_token, operate_token, tokens_file or oidc (in the environment: RHEOSTAT_TUNER__HTTP__READ_TOKEN), or "
                "host 127.0.0.1"
            )
        return self

    @model_validator(mode="after")
    def _check_tls(self) -> HttpSettings:
        if (self.tls_certfile is None) != (self.tls_keyfile is None):
            raise ValueError("tls_certfile and tls_keyfile: set both, or neither")
        return self

    @property
    def has_tokens(self) -> bool:
        return any(given is not None for given in (self.read_token, self.operate_token, self.tokens_file, self.oidc))

    def address(self, port: int) -> str:
        """Returns the URL of the server for this machine.

        Args:
            port: the actual port; the settings may leave it open (0).
        """
        host = _LOCAL_ADDRESS.get(self.host, self.host)
        scheme = "https" if self.tls_certfile is not None else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    @property
    def page(self) -> str:
        """The address of the status page, for links from other pages."""
        return self.page_url or self.address(self.port)

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_local_host(self.host)
