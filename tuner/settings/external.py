"""The sections ``tuner.vetoes`` and ``tuner.webhooks`` of the settings file: checks of other services, and receivers."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from streaming.shared.addresses import is_https_or_local
from streaming.shared.unit_settings import Rate, Seconds

_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
_URL_CHARS_MAX = 2000


def _check_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("expected a URL such as https://host:8080/path")
    if parts.fragment:
        raise ValueError("the URL ends with a fragment (#…), which is never sent to a server: remove the fragment")
    return url


def refuse_login(name: str, *urls: str | None) -> None:
    """Raises ValueError for a URL with a login.

    A section calls this as a whole: pydantic's error about a single key would show the URL, and so the login.
    """
    if any("@" in urlsplit(url).netloc for url in urls if url is not None):
        raise ValueError(f"{name}: the URL contains a login, which would appear in the log: leave it out")


Url = Annotated[str, Field(max_length=_URL_CHARS_MAX), AfterValidator(_check_url)]


class VetoSettings(BaseModel):
    """A check by another service, which can hold or lower throttles and hold the steps of plans. It can never raise a throttle."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str = Field(
        pattern=_NAME_PATTERN,
        description="name of the check in decisions and metrics: letters, digits, `.`, `_` and `-`",
    )
    url: Url | None = Field(
        default=None,
        description='URL that answers with a JSON object: `{"veto": true, "cause": "a sentence"}`. If the check has `above` or '
        '`below`, the object is `{"value": 0.8}`',
    )
    prometheus: Url | None = Field(
        default=None, description="address of a Prometheus server, such as http://prometheus:9090, instead of `url`"
    )
    query: str | None = Field(
        default=None,
        min_length=1,
        max_length=4000,
        description="PromQL query. Without `above` and `below`, the check vetoes if the query returns any series, as an alert rule "
        "fires",
    )
    above: float | None = Field(
        default=None, description="the check vetoes if a value of the answer is above this number"
    )
    below: float | None = Field(
        default=None, description="the check vetoes if a value of the answer is below this number"
    )
    effect: Literal["hold", "lower"] = Field(
        default="hold",
        description="what the tuner does during a veto; hold: it raises no throttle and begins no step of a plan; lower: it "
        "also lowers the throttles",
    )
    lower_to_bytes_per_s: Rate | None = Field(
        default=None,
        ge=1,
        description="for `effect: lower`: the tuner lowers the throttles to this rate, in bytes/s; default: "
        "tuner.rate_bytes_per_s_min",
    )
    interval_s: Seconds = Field(default=15.0, ge=1, le=3600, description="seconds between two requests")
    timeout_s: Seconds = Field(
        default=5.0, ge=0.1, le=30, description="longest time to wait for the answer to a request, in seconds"
    )
    answer_valid_s: Seconds = Field(
        default=60.0,
        ge=1,
        le=86_400,
        description="if requests fail, the last answer stays valid for this time, in seconds; must be longer than interval_s",
    )
    unknown_hold_s: Seconds = Field(
        default=300.0,
        ge=0,
        le=86_400,
        description="if there is no valid answer, the tuner raises no throttle for this time, in seconds; after it, the check "
        "has no effect until it answers again. 0: a missing answer has no effect",
    )
    token_file: str | None = Field(
        default=None, description="file with a bearer token for the requests; the tuner reads the file for each request"
    )
    cafile: str | None = Field(
        default=None,
        description="PEM file with the certificate authorities (CAs) of the server; without it, the CAs of the operating system",
    )

    @model_validator(mode="after")
    def _check_source(self) -> VetoSettings:
        refuse_login(f"veto {self.name}", self.url, self.prometheus)
        if (self.url is None) == (self.prometheus is None):
            raise ValueError(f"veto {self.name} needs either url or prometheus")
        if (self.prometheus is None) != (self.query is None):
            raise ValueError(f"veto {self.name}: prometheus and query: set both, or neither")
        if self.prometheus is not None and "?" in self.prometheus:
            raise ValueError(
                f"veto {self.name}: prometheus is the address of the server, without a question mark and parameters"
            )
        if self.above is not None and self.below is not None:
            raise ValueError(f"veto {self.name}: set only one of the limits above and below")
        if self.effect == "hold" and self.lower_to_bytes_per_s is not None:
            raise ValueError(
                f"veto {self.name}: lower_to_bytes_per_s applies only with effect: lower, but this veto has effect: hold"
            )
        if self.answer_valid_s <= self.interval_s:
            raise ValueError(
                f"veto {self.name}: answer_valid_s ({self.answer_valid_s:g} s) must be longer than interval_s "
                f"({self.interval_s:g} s), or each answer expires before the next"
            )
        if self.token_file is not None and not is_https_or_local(self.url or self.prometheus or ""):
            raise ValueError(
                f"veto {self.name}: a token needs an address that begins with https:// (http:// only for a host like 127.0.0.1)"
            )
        return self

    def exceeds(self, value: float) -> bool:
        """Returns whether a value is a veto. Without ``above`` and ``below`` each value is one, as in an alert rule."""
        if self.above is not None:
            return value > self.above
        return self.below is None or value < self.below


WebhookEvent = Literal["found", "stalled", "acted", "done"]
WEBHOOK_EVENTS: tuple[WebhookEvent, ...] = ("found", "stalled", "acted", "done")


class WebhookSettings(BaseModel):
    """A service to which the tuner sends events about moves."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str = Field(
        pattern=_NAME_PATTERN, description="name in the log and in metrics: letters, digits, `.`, `_` and `-`"
    )
    url: Url = Field(description="URL to which the tuner sends each event as a POST request with a JSON body")
    events: tuple[WebhookEvent, ...] = Field(
        default=WEBHOOK_EVENTS,
        min_length=1,
        description="events that the tuner sends. found: partitions begin to move; stalled: moves onto a broker have stalled; "
        "acted: the tuner has written throttles (at most one event a minute); done: no partition moves any more",
    )
    secret_file: str | None = Field(
        default=None,
        description="file whose only line is the secret with which the tuner signs events; the tuner reads the file for each "
        "request",
    )
    secret_variable: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="environment variable with the secret, instead of secret_file",
    )
    timeout_s: Seconds = Field(
        default=5.0, ge=0.1, le=30, description="longest time to wait for the answer to a request, in seconds"
    )
    cafile: str | None = Field(
        default=None,
        description="PEM file with the certificate authorities (CAs) of the receiver; without it, the CAs of the operating system",
    )

    @model_validator(mode="after")
    def _check_secret(self) -> WebhookSettings:
        refuse_login(f"webhook {self.name}", self.url)
        if (self.secret_file is None) == (self.secret_variable is None):
            raise ValueError(f"webhook {self.name} needs either secret_file or secret_variable, to sign the events")
        return self
