"""Gets access tokens for SASL OAUTHBEARER: from a token endpoint, from a file, or from a function of the operator.

    endpoint   OAuth 2.0 client credentials (RFC 6749, section 4.4), over HTTP
    file       a file that another program replaces in time, such as a token that Kubernetes projects into a pod
    function   a Python function, such as one that signs a request for Amazon MSK

Each function returns a token that is valid now, or raises LoginError with the setting and the cause.
"""

from __future__ import annotations

import base64
import http.client
import importlib
import json
import math
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeGuard

from streaming.shared.foreign_text import printable_start
from streaming.shared.http_fetch import fetch, read_body
from streaming.shared.kafka.secrets import LoginError, SecretFile

REQUEST_S_MAX = 10.0
_QUOTED_CHARS_MAX = 120
_NUMBER_MAX = 1e15
_LIFETIME_S_MAX = 86_400.0  # A token that lasts longer is fetched again anyway.
_ENDPOINT, _FILE, _PROVIDER = "sasl_oauth_token_endpoint", "sasl_oauth_token_file", "sasl_oauth_token_provider"
# The characters that RFC 6750 allows. Any other character could end the token inside the login message.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token and the time when it expires (epoch, in seconds)."""

    value: str
    expires_s: float


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """A token endpoint and the client's credentials.

    Attributes:
        client_secret: the secret, or the file that contains it.
        cafile: PEM file with the certificate authorities of the endpoint; None means the authorities of the operating system.
    """

    url: str
    client_id: str
    client_secret: str | SecretFile
    scope: str | None = None
    cafile: str | None = None

    @property
    def key_and_value(self) -> str:
        return f"kafka.{_ENDPOINT}: {self.url}"

    def fetch(self) -> AccessToken:
        """Returns a new token from the endpoint.

        Raises:
            LoginError: the endpoint does not answer with a valid token.
        """
        secret = self.client_secret.read() if isinstance(self.client_secret, SecretFile) else self.client_secret
        # RFC 6749, section 2.3.1: client id and secret are form-encoded before they are joined.
        user, password = (urllib.parse.quote_plus(text) for text in (self.client_id, secret))
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        request = urllib.request.Request(
            self.url,
            data=urllib.parse.urlencode(form).encode(),
            headers={
                "authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode(),
                "accept": "application/json",
            },
        )
        answer = _json_object(self._send(request), self.key_and_value)
        value, lifetime_s = answer.get("access_token"), answer.get("expires_in")
        if not isinstance(value, str):
            raise LoginError(f"{self.key_and_value} answers without an access_token: check the path of the URL")
        return checked(value, time.time() + lifetime_s if _is_number(lifetime_s) else None, self.key_and_value)

    def _send(self, request: urllib.request.Request) -> bytes:
        try:
            context = ssl.create_default_context(cafile=self.cafile)
        except (OSError, ValueError) as error:
            raise LoginError(f"kafka.sasl_oauth_cafile: {self.cafile} cannot be used: {error}") from error
        deadline_s = time.monotonic() + REQUEST_S_MAX
        try:
            return fetch(request, context, REQUEST_S_MAX)
        except urllib.error.HTTPError as error:
            with error:
                detail = _error_detail(error, deadline_s)
            raise LoginError(f"{self.key_and_value} answers with the status {error.code}{detail}") from error
        except TimeoutError as error:
            raise LoginError(f"{self.key_and_value} did not answer within {REQUEST_S_MAX:g} s") from error
        except urllib.error.URLError as error:
            reason = error.reason
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise LoginError(
                    f"{self.key_and_value}: its certificate is not accepted ({reason.verify_message}): see kafka.sasl_oauth_cafile"
                ) from error
            text = getattr(reason, "strerror", None) or reason
            raise LoginError(f"{self.key_and_value} cannot be reached: {text}") from error
        except (OSError, http.client.HTTPException) as error:
            raise LoginError(
                f"{self.key_and_value} does not answer as an HTTP server: {type(error).__name__}"
            ) from error


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A file whose only line is a JSON Web Token. The file is read for each login, so it may change at any time."""

    path: str

    @property
    def key_and_value(self) -> str:
        return f"kafka.{_FILE}: {self.path}"

    def fetch(self) -> AccessToken:
        """Returns the token in the file.

        Raises:
            LoginError: the file has no valid token.
        """
        return checked(SecretFile(_FILE, self.path).read(), None, self.key_and_value)


@dataclass(frozen=True, slots=True)
class TokenProvider:
    """A function without arguments that returns a token.

    It returns either a JSON Web Token, or a pair of any token and its time of expiry (epoch, in ms), like the function
    ``generate_auth_token`` of the package aws-msk-iam-sasl-signer-python.

    Attributes:
        function: its name, as ``package.module:function``.
    """

    function: str

    @property
    def key_and_value(self) -> str:
        return f"kafka.{_PROVIDER}: {self.function}"

    def fetch(self) -> AccessToken:
        """Returns the token that the function returns.

        Raises:
            LoginError: the function cannot be imported, raises an error, or returns no valid token.
        """
        function = self._load()
        try:
            result = function()
        except Exception as error:
            raise LoginError(f"{self.key_and_value} raised {type(error).__name__}: {_quoted(str(error))}") from error
        if isinstance(result, str):
            return checked(result, None, self.key_and_value)
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], str) and _is_number(result[1]):
            return checked(result[0], result[1] / 1000, self.key_and_value)
        raise LoginError(f"{self.key_and_value} must return a token, or a pair of a token and its expiry in epoch ms")

    def _load(self) -> Callable[[], Any]:
        module_name, _, function_name = self.function.partition(":")
        try:
            function = getattr(importlib.import_module(module_name), function_name)
        except Exception as error:
            raise LoginError(
                f"{self.key_and_value} cannot be imported ({type(error).__name__}: {_quoted(str(error))}): check the name, and "
                "that "
                "PYTHONPATH contains the folder of the module"
            ) from error
        if not callable(function):
            raise LoginError(f"{self.key_and_value} is not a function")
        return function  # type: ignore[no-any-return]  # any callable


def checked(value: str, expires_s: float | None, key_and_value: str) -> AccessToken:
    """Returns the token with its expiry.

    Args:
        expires_s: the expiry (epoch, in seconds); None if the token's own claim ``exp`` states it.
        key_and_value: the setting and its value, for messages.

    Raises:
        LoginError: the token has expired, has no known expiry, or is malformed.
    """
    if not _TOKEN.fullmatch(value):
        raise LoginError(f"{key_and_value} gives no token: a token has only letters, digits and - . _ ~ + / =")
    # The token's claim takes precedence, because brokers check the claim, and some endpoints round ``expires_in``.
    expires_s = _expiry_claim(value) or expires_s
    if expires_s is None or not math.isfinite(expires_s):
        raise LoginError(f"{key_and_value} gives a token that does not say when it expires")
    ago_s = time.time() - expires_s
    if ago_s >= 0:
        raise LoginError(
            f"{key_and_value} gives a token that expired {ago_s:.0f} s ago: check the program that renews it, and this "
            "machine's clock"
        )
    return AccessToken(value, min(expires_s, time.time() + _LIFETIME_S_MAX))


def _expiry_claim(value: str) -> float | None:
    """Returns the claim ``exp`` of a JSON Web Token; None if the token is of another kind. Only brokers check signatures."""
    parts = value.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return None
    expires = claims.get("exp") if isinstance(claims, dict) else None
    return float(expires) if _is_number(expires) else None


def _is_number(value: object) -> TypeGuard[float]:
    """Returns whether the value is a number that can be a time. An integer of JSON may be too large for a float."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _NUMBER_MAX


def _json_object(body: bytes, key_and_value: str) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise LoginError(f"{key_and_value} does not answer with JSON: check the path of the URL") from error
    if not isinstance(answer, dict):
        raise LoginError(f"{key_and_value} does not answer with a JSON object: check the path of the URL")
    return answer


def _error_detail(answer: Any, deadline_s: float) -> str:
    """Returns the error code of an OAuth answer (RFC 6749, section 5.2), such as `` (invalid_client)``; empty if it has none.

    The status alone names the fault, so a body that cannot be read or understood is left out.
    """
    try:
        body = json.loads(read_body(answer, deadline_s))
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        return ""
    code = body.get("error") if isinstance(body, dict) else None
    return f" ({_quoted(code)})" if isinstance(code, str) else ""


def _quoted(text: str) -> str:
    """Returns the start of a foreign text in one printable line."""
    return printable_start(text, _QUOTED_CHARS_MAX)
