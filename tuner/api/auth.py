"""Tokens of the HTTP API: the roles they grant, the tokens file, and the comparison in constant time.

``oidc.py`` checks the tokens of an OpenID Connect provider.

Invariant: response times reveal nothing about a token. The digest of a presented token is compared with every known digest.

Terms:
    role    ``read`` may read everything; ``operate`` may also give orders.
    caller  the name and the role of a token, for the journal; never the token itself.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Protocol

import structlog

from streaming.shared.file_stamp import FileStamp, file_stamp
from streaming.shared.metrics_settings import token_problem

log = structlog.get_logger("tuner")

_NAME_LETTERS_MAX = 64
_CHECK_EVERY_S = 2.0


class ApiRole(StrEnum):
    READ = "read"
    OPERATE = "operate"

    def covers(self, other: ApiRole) -> bool:
        return self is ApiRole.OPERATE or other is ApiRole.READ


class CredentialsError(Exception):
    """Tokens or certificates cannot be used. The text names the file and the line, and never contains a token."""


@dataclass(frozen=True, slots=True)
class ApiCaller:
    name: str
    role: ApiRole


class TokenRefused(Exception):
    """A token of an OpenID Connect provider is not valid. The text is for the caller, and never contains the token."""


class UnknownKey(TokenRefused):
    """The token names a key that this tuner does not know. The provider may have added the key since the last fetch."""


class NoRole(TokenRefused):
    """The token is valid, but gives its caller no role."""


class TokenVerifier(Protocol):
    """Checks tokens that another service has signed. ``tuner.api.oidc`` implements it."""

    @property
    def can_operate(self) -> bool:
        """Whether a token may have the role operate."""

    def find(self, presented: str) -> ApiCaller:
        """Returns the caller of a token; raises TokenRefused."""

    def await_new_keys(self) -> None:
        """Waits some seconds for keys that the service may have added."""


@dataclass(frozen=True, slots=True)
class Token:
    digest: bytes
    caller: ApiCaller


def make_token(secret: str, name: str, role: ApiRole) -> Token:
    return Token(_digest(secret), ApiCaller(name, role))


def find_caller(presented: str, known: Sequence[Token]) -> ApiCaller | None:
    """Returns the caller to whom the presented token belongs; None if it is unknown."""
    digest = _digest(presented)
    caller: ApiCaller | None = None
    for candidate in known:
        # No early exit, so that the time is the same for every token.
        if hmac.compare_digest(digest, candidate.digest):
            caller = candidate.caller
    return caller


def parse_tokens(text: str, file_name: str) -> tuple[Token, ...]:
    """Returns the tokens of a tokens file.

    Args:
        file_name: for error messages.

    Raises:
        CredentialsError: a line is not ``role name token``.
    """
    tokens: list[Token] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        position, parts = f"{file_name}:{number}", line.split()
        if len(parts) != 3:
            raise CredentialsError(f"{position}: expected a role, a name and a token, found {len(parts)} words")
        role, caller_name, secret = parts
        if role not in tuple(ApiRole):
            # The wrong word is not quoted, as it may be the token.
            raise CredentialsError(f"{position}: the first word must be the role: read or operate")
        if len(caller_name) > _NAME_LETTERS_MAX or not caller_name.isprintable():
            raise CredentialsError(f"{position}: the second word must be a name of at most {_NAME_LETTERS_MAX} letters")
        if (fault := token_problem(secret)) is not None:
            raise CredentialsError(f"{position}: the token of {caller_name} {fault}")
        token = make_token(secret, caller_name, ApiRole(role))
        if any(hmac.compare_digest(token.digest, other.digest) for other in tokens):
            raise CredentialsError(f"{position}: the token of {caller_name} occurs twice: create another token")
        tokens.append(token)
    if not tokens:
        raise CredentialsError(f"{file_name}: holds no token: expected lines such as `operate kim 3f9c…`")
    return tuple(tokens)


class Tokens:
    """All known tokens: from the settings, from the tokens file, and from an OpenID Connect provider.

    The tokens file is read again when it changes.
    """

    def __init__(
        self,
        from_settings: Sequence[Token] = (),
        file: str | None = None,
        *,
        monotonic: Callable[[], float] | None = None,
        verifier: TokenVerifier | None = None,
    ) -> None:
        """
        Args:
            monotonic: None if the file is never read again.
            verifier: checks the tokens of an OpenID Connect provider; None if there is no provider.

        Raises:
            CredentialsError: the file cannot be read, or a line of it is wrong.
        """
        self._from_settings = tuple(from_settings)
        self._file = file
        self._monotonic = monotonic
        self._verifier = verifier
        self._lock = threading.Lock()
        self._checked_at_s = float("-inf")
        self._stamp: FileStamp | None = None
        self._from_file: tuple[Token, ...] = ()
        if file is not None:
            self._stamp, self._from_file = file_stamp(file), self._check_distinct(_read(file), file)

    @property
    def are_configured(self) -> bool:
        """Whether any token is configured, so that every caller has to present one."""
        return bool(self._from_settings) or self._file is not None or self._verifier is not None

    @property
    def can_operate(self) -> bool:
        if self._verifier is not None and self._verifier.can_operate:
            return True
        return any(token.caller.role is ApiRole.OPERATE for token in self._known())

    def find(self, presented: str) -> ApiCaller | None:
        """Returns the caller of a token; None if the token is unknown.

        Raises:
            TokenRefused: the OpenID Connect provider issued the token, but the token is not valid or gives no role.
        """
        caller = find_caller(presented, self._known())
        has_form_of_jwt = presented.count(".") == 2
        if caller is None and self._verifier is not None and has_form_of_jwt:
            return self._verifier.find(presented)
        return caller

    def await_new_keys(self) -> None:
        """Waits some seconds for keys that the provider may have added."""
        if self._verifier is not None:
            self._verifier.await_new_keys()

    def _known(self) -> tuple[Token, ...]:
        if self._file is not None and self._monotonic is not None:
            with self._lock:
                now_s = self._monotonic()
                if now_s - self._checked_at_s >= _CHECK_EVERY_S:
                    self._checked_at_s = now_s
                    self._reload_if_changed(self._file)
        return (*self._from_settings, *self._from_file)

    def _check_distinct(self, tokens: tuple[Token, ...], file: str) -> tuple[Token, ...]:
        for token in tokens:
            if any(hmac.compare_digest(token.digest, other.digest) for other in self._from_settings):
                raise CredentialsError(
                    f"{file}: the token of {token.caller.name} is also in the settings: create another token"
                )
        return tokens

    def _reload_if_changed(self, file: str) -> None:
        """Reads the file again if it has changed.

        A file that cannot be read changes nothing, so that no caller is locked out while the file is being written. Unlike a
        certificate, the file is read at the first check that finds it changed: the next request may present a revoked token.
        """
        stamp = file_stamp(file)
        if stamp == self._stamp:
            return
        try:
            self._from_file = self._check_distinct(_read(file), file)
            log.info("the tokens file was read again", file=file, tokens=len(self._from_file))
        except CredentialsError as error:
            log.error(
                "the changed tokens file cannot be used, so the previous tokens stay valid: correct the file",
                error=str(error),
            )
        self._stamp = stamp


def _read(file: str) -> tuple[Token, ...]:
    try:
        with open(file, encoding="utf-8") as opened:
            return parse_tokens(opened.read(), file)
    except OSError as error:
        raise CredentialsError(f"{file}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CredentialsError(f"{file}: not UTF-8 text (byte {error.start})") from error


def _digest(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogateescape")).digest()
