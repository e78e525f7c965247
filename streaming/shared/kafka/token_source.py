"""Keeps an access token valid for all Kafka clients of a process, and shares it with Spark's Java client by a file.

A thread fetches the next token before the current one expires. So a client that connects seldom waits for the token endpoint, and
an endpoint that fails for a while harms no client as long as the current token is valid.

A source begins to fetch at the first call. If a fetch fails, ``token`` raises its error at once while the thread tries again, so
that a hanging endpoint does not block a client's network thread at each connection.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import structlog
from kafka.net.sasl.oauth import AbstractTokenProvider

from streaming.shared.kafka.access_tokens import (
    REQUEST_S_MAX,
    AccessToken,
    TokenEndpoint,
    TokenFile,
    TokenProvider,
)
from streaming.shared.kafka.secrets import LoginError

log = structlog.get_logger("kafka")

TokenOrigin = TokenEndpoint | TokenProvider

# The next token is fetched after this share of the lifetime. Kafka's clients log in again at 80 % or later.
_RENEW_AFTER_RATIO = 0.7
_RETRY_S_MIN = 1.0
_RETRY_S_MAX = 30.0
# A little longer than the request's own time limit, because the request's error says more.
_WAIT_S_MAX = REQUEST_S_MAX + 1.0


class TokenSource:
    """Keeps one token valid. Thread-safe."""

    def __init__(self, origin: TokenOrigin) -> None:
        self._origin = origin
        self._changed = threading.Condition()
        self._token: AccessToken | None = None
        self._error: LoginError | None = None
        self._thread: threading.Thread | None = None
        self._is_demanded = False  # A caller waits for a token.
        self._closed = False
        self._shared_file: Path | None = None

    def token(self, wait_s: float = _WAIT_S_MAX) -> AccessToken:
        """Returns a valid token. Waits if there is no token yet.

        Raises:
            LoginError: there is no valid token, and the last fetch failed or takes longer than ``wait_s``.
        """
        deadline_s = time.monotonic() + wait_s
        with self._changed:
            self._start()
            while True:
                if self._token is not None and self._token.expires_s > time.time():
                    return self._token
                if self._error is not None:
                    raise LoginError(str(self._error))
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise LoginError(f"{self._origin.key_and_value} did not give a token within {wait_s:g} s")
                self._is_demanded = True
                self._changed.notify_all()
                self._changed.wait(left_s)

    def shared_file(self) -> Path:
        """Returns a file that always has the newest token, and its expiry in epoch ms in the second line.

        Only this user can read the file. It is removed at the end of the process.

        Raises:
            LoginError: as ``token``; or the file cannot be written.
        """
        token = self.token()
        with self._changed:
            if self._shared_file is None:
                folder = tempfile.mkdtemp(prefix="rheostat-token-")
                atexit.register(shutil.rmtree, folder, ignore_errors=True)
                self._shared_file = Path(folder) / "token"
                self._share(token)
            return self._shared_file

    def close(self) -> None:
        """Ends the thread once its current request has ended."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._renew, name="kafka-token", daemon=True)
            self._thread.start()

    def _renew(self) -> None:
        retry_s = _RETRY_S_MIN
        while not self._closed:
            try:
                token = self._origin.fetch()
            except Exception as error:  # noqa: BLE001 - no other thread fetches tokens, so this one must not end
                self._report_failure(_login_error(error, self._origin.key_and_value), retry_s)
                self._pause(retry_s)
                retry_s = min(_RETRY_S_MAX, retry_s * 2)
                continue
            retry_s = _RETRY_S_MIN
            with self._changed:
                had_failed = self._error is not None
                self._token, self._error, self._is_demanded = token, None, False
                self._share(token)
                self._changed.notify_all()
            if had_failed:
                log.info("a token for Kafka was fetched again", origin=self._origin.key_and_value)
            self._pause_until_renewal(token)

    def _report_failure(self, error: LoginError, retry_s: float) -> None:
        with self._changed:
            self._error = error
            current = self._token
            self._changed.notify_all()
        valid_s = 0.0 if current is None else max(0.0, current.expires_s - time.time())
        log.warning(
            "no new token for Kafka could be fetched; trying again",
            error=str(error),
            in_s=retry_s,
            current_token_is_valid_s=round(valid_s),
        )

    def _pause(self, duration_s: float) -> None:
        until_s = time.monotonic() + duration_s
        with self._changed:
            while not self._closed and (left_s := until_s - time.monotonic()) > 0:
                self._changed.wait(left_s)

    def _pause_until_renewal(self, token: AccessToken) -> None:
        renew_s = time.monotonic() + _RENEW_AFTER_RATIO * max(0.0, token.expires_s - time.time())
        with self._changed:
            # A caller demands a token earlier if the machine slept, or its clock was set.
            while not self._closed and not self._is_demanded and (left_s := renew_s - time.monotonic()) > 0:
                self._changed.wait(left_s)

    def _share(self, token: AccessToken) -> None:
        """Replaces the file's content, so that a reader sees the old or the new token."""
        if self._shared_file is None:
            return
        temporary = self._shared_file.with_suffix(".new")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(descriptor, "w", encoding="ascii") as file:
                file.write(f"{token.value}\n{round(token.expires_s * 1000)}\n")
            temporary.replace(self._shared_file)
        except OSError as error:
            log.error(
                "the new token for Spark cannot be written, so Spark's connections keep the old token until it expires",
                file=str(self._shared_file),
                error=error.strerror,
            )


def _login_error(error: Exception, name: str) -> LoginError:
    """Returns the error itself, or a LoginError that names the origin of tokens and an error of another kind."""
    if isinstance(error, LoginError):
        return error
    return LoginError(f"{name} gave no token: {type(error).__name__}: {' '.join(str(error).split())}")


@lru_cache(maxsize=64)
def token_source(origin: TokenOrigin) -> TokenSource:
    """Returns the process's source of tokens of this origin. All clients with the same settings share it."""
    return TokenSource(origin)


class ClientTokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """Gives kafka-python the token for each login."""

    def __init__(self, origin: TokenOrigin | TokenFile) -> None:
        super().__init__()
        self._origin = origin

    def token(self) -> str:
        if isinstance(self._origin, TokenFile):
            return self._origin.fetch().value
        return token_source(self._origin).token().value

    def extensions(self) -> dict[str, Any]:
        return {}


def java_token_file(origin: TokenOrigin | TokenFile) -> str:
    """Returns the file from which Spark's Java client reads the token at each login.

    Raises:
        LoginError: there is no valid token now.
    """
    if isinstance(origin, TokenFile):
        origin.fetch()
        return str(Path(origin.path).absolute())
    return str(token_source(origin).shared_file())
