"""Settings of the metrics endpoint of collector, stream and learn: address, port and token.

Requests from this machine need no token. An address that other machines can reach is refused unless a token is set (the same rule
as ``tuner.http``).
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from streaming.shared.addresses import is_local_host

TOKEN_CHARACTERS_MIN = 16


def token_problem(secret: str) -> str | None:
    """Returns the fault of a token as text, without quoting the token; None if the token is usable."""
    if len(secret) < TOKEN_CHARACTERS_MIN:
        return f"has fewer than {TOKEN_CHARACTERS_MIN} characters, so it can be guessed: `openssl rand -hex 24` makes a good one"
    if not all("!" <= character <= "~" for character in secret):
        return "has spaces or characters outside ASCII, which no HTTP header carries: `openssl rand -hex 24` makes a good one"
    return None


class MetricsHttpSettings(BaseModel):
    """Address, port and token of a process's metrics endpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = Field(
        default="127.0.0.1",
        description="address to listen on; if other machines can reach this address, a token is required",
    )
    port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="port to listen on; 0: any free port; if absent, the process serves no metrics",
    )
    read_token: SecretStr | None = Field(
        default=None,
        description="bearer token that clients on other machines need; better set as the environment variable of this "
        "section: RHEOSTAT_COLLECTOR__HTTP__READ_TOKEN, RHEOSTAT_STREAM__HTTP__READ_TOKEN or RHEOSTAT_LEARN__HTTP__READ_TOKEN",
    )

    # A validator of the section, not of ``read_token``: pydantic would quote the key's value, a secret, in its error.
    @model_validator(mode="after")
    def _network_needs_a_token(self) -> MetricsHttpSettings:
        if self.read_token is not None and (fault := token_problem(self.read_token.get_secret_value())) is not None:
            raise ValueError(f"read_token {fault}")
        if self.port is not None and self.read_token is None and not is_local_host(self.host):
            raise ValueError(
                f"host {self.host} can be reached from other machines, and no token is set, so the metrics are not served: set "
                "read_token (in the environment: RHEOSTAT_COLLECTOR__HTTP__READ_TOKEN, RHEOSTAT_STREAM__HTTP__READ_TOKEN or "
                "RHEOSTAT_LEARN__HTTP__READ_TOKEN), or host 127.0.0.1"
            )
        return self

    @property
    def token(self) -> str | None:
        return None if self.read_token is None else self.read_token.get_secret_value()
