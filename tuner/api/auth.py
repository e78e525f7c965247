"""Who may ask, and who may order.

Intuition: whoever can turn a throttle can stop a cluster, so nobody may order over HTTP without a token that says so; and what
can be read is for those on the machine itself, or for a token.

Invariant: how long an answer takes tells nothing about a token. Every token is compared whole, by its digest, with every other.

Vocabulary:
    role    ``read`` sees everything, ``operate`` gives orders, too.
    caller  a name for the journal and a role; never the token itself.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

import structlog

from streaming.shared.file_stamp import FileStamp, file_stamp
from streaming.shared.metrics_settings import token_problem

log = structlog.get_logger("tuner")

_NAME_LETTERS_MAX = 64
_LOOK_EVERY_S = 2.0


class ApiRole(StrEnum):
    READ = "read"
    OPERATE = "operate"

    def covers(self, other: ApiRole) -> bool:
        return self is ApiRole.OPERATE or other is ApiRole.READ


class AccessError(Exception):
    """Tokens or certificates cannot be used; the text names the file and the line, and never a token."""


@dataclass(frozen=True, slots=True)
class ApiCaller:
    name: str
    role: ApiRole


@dataclass(frozen=True, slots=True)
class Token:
    digest: bytes
    caller: ApiCaller


def make_token(secret: str, name: str, role: ApiRole) -> Token:
    return Token(_digest(secret), ApiCaller(name, role))


def find_caller(presented: str, known: Sequence[Token]) -> ApiCaller | None:
    """Whose token it is."""
    digest = _digest(presented)
    found: ApiCaller | None = None
    for each in known:
        # No way out at the first that fits: the time it takes is the same for all.
        if hmac.compare_digest(digest, each.digest):
            found = each.caller
    return found


def parse_tokens(text: str, name: str) -> tuple[Token, ...]:
    """The lines of a tokens file.

    Args:
        name: of the file, for complaints.

    Raises:
        AccessError: a line is not ``role name token``.
    """
    found: list[Token] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        where, parts = f"{name}:{number}", line.split()
        if len(parts) != 3:
            raise AccessError(f"{where}: expected a role, a name and a token, found {len(parts)} words")
        role, who, secret = parts
        if role not in tuple(ApiRole):
            # What stands in the wrong place may be the token.
            raise AccessError(f"{where}: the first word is the role: expected read or operate")
        if len(who) > _NAME_LETTERS_MAX or not who.isprintable():
            raise AccessError(f"{where}: the second word is a name of at most {_NAME_LETTERS_MAX} letters")
        if (fault := token_problem(secret)) is not None:
            raise AccessError(f"{where}: the token of {who} {fault}")
        made = make_token(secret, who, ApiRole(role))
        if any(hmac.compare_digest(made.digest, other.digest) for other in found):
            raise AccessError(f"{where}: the token of {who} stands here twice: make another")
        found.append(made)
    if not found:
        raise AccessError(f"{name}: holds no token: expected lines such as `operate kim 3f9c…`")
    return tuple(found)


class Tokens:
    """Those of the settings, and those of a file, which is read again when it changes."""

    def __init__(
        self, given: Sequence[Token] = (), file: str | None = None, *, monotonic: Callable[[], float] | None = None
    ) -> None:
        """
        Raises:
            AccessError: the file cannot be read, or a line of it is wrong.
        """
        self._given = tuple(given)
        self._file = file
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._looked_s = float("-inf")
        self._stamp: FileStamp | None = None
        self._from_file: tuple[Token, ...] = ()
        if file is not None:
            self._stamp, self._from_file = file_stamp(file), self._checked(_read(file), file)

    @property
    def needed(self) -> bool:
        """Whether there are any, so that one must be shown."""
        return bool(self._given) or self._file is not None

    @property
    def can_operate(self) -> bool:
        return any(each.caller.role is ApiRole.OPERATE for each in self._known())

    def find(self, presented: str) -> ApiCaller | None:
        return find_caller(presented, self._known())

    def _known(self) -> tuple[Token, ...]:
        if self._file is not None and self._monotonic is not None:
            with self._lock:
                now_s = self._monotonic()
                if now_s - self._looked_s >= _LOOK_EVERY_S:
                    self._looked_s = now_s
                    self._look_again(self._file)
        return (*self._given, *self._from_file)

    def _checked(self, found: tuple[Token, ...], file: str) -> tuple[Token, ...]:
        for each in found:
            if any(hmac.compare_digest(each.digest, other.digest) for other in self._given):
                raise AccessError(f"{file}: the token of {each.caller.name} is in the settings, too: make another")
        return found

    def _look_again(self, file: str) -> None:
        """Reads the file again when it has changed.

        A file that cannot be read keeps the tokens that it had: nobody is locked out in the middle of its being written. It is read
        at the first look that finds it changed, unlike a certificate: the next look comes with the next request, which may be
        that of a token that was taken back.
        """
        stamp = file_stamp(file)
        if stamp == self._stamp:
            return
        try:
            self._from_file = self._checked(_read(file), file)
            log.info("tokens are read again", file=file, tokens=len(self._from_file))
        except AccessError as error:
            log.error("tokens cannot be read again, so those from before still hold", error=str(error))
        self._stamp = stamp


def _read(file: str) -> tuple[Token, ...]:
    try:
        with open(file, encoding="utf-8") as opened:
            return parse_tokens(opened.read(), file)
    except OSError as error:
        raise AccessError(f"{file}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise AccessError(f"{file}: not UTF-8 text (byte {error.start})") from error


def _digest(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogateescape")).digest()
