"""Keeps the public keys of an OpenID Connect provider (JWKS), from its server or from a file.

A thread fetches the keys at the start and every ten minutes. A token with an unknown key id makes the thread fetch the keys
earlier. The thread waits at least ten seconds between two fetches, so that forged tokens cannot make the tuner flood the provider.
If the provider does not answer, the last keys stay valid.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
import urllib.error
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jwt
import structlog

from streaming.shared.file_stamp import FileStamp, file_stamp
from streaming.shared.http_fetch import fetch

log = structlog.get_logger("tuner")

REFRESH_S = 600.0
DEMAND_S_MIN = 10.0  # Shortest time between two fetches, also if tokens with unknown key ids arrive.
WAIT_S_MAX = 5.0  # Longest time that a request waits for new keys.
_REQUEST_S_MAX = 5.0
_FILE_CHECK_S = 2.0
# The only accepted algorithms, by the kind of key. The token does not choose the algorithm: otherwise a forged token could choose
# an HMAC, with the public key as its secret.
ALGORITHMS = {"RSA": "RS256", "EC": "ES256"}


class KeysUnavailable(Exception):
    """The keys cannot be read; the text says why."""


class ProviderKeys:
    """The current keys by key id. Thread-safe."""

    def __init__(self, url: str | None, file: str | None, cafile: str | None = None) -> None:
        """Reads the keys once.

        Args:
            url: the address from which the keys are fetched; None if the keys are in ``file``.
        """
        self._url, self._file, self._cafile = url, file, cafile
        self._changed = threading.Condition()
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._is_demanded = False
        self._fetches = 0
        self._fetched_at_s = float("-inf")
        self._stamp: FileStamp | None = None
        self._checked_at_s = float("-inf")
        self._closed = False
        if file is None:
            threading.Thread(target=self._fetch_repeatedly, name="oidc-keys", daemon=True).start()
        else:
            self._read_changed_file(file)

    def find(self, key_id: str | None) -> jwt.PyJWK | None:
        """Returns the known key with this id. Without an id, returns the provider's key only if the provider has a single key."""
        if self._file is not None:
            self._read_changed_file(self._file)
        keys = self._keys
        if key_id is None:
            return next(iter(keys.values())) if len(keys) == 1 else None
        return keys.get(key_id)

    def await_refresh(self) -> None:
        """Waits until the keys have been fetched again. Returns at once if the last fetch was less than ten seconds ago."""
        if self._file is not None:
            return
        deadline_s = time.monotonic() + WAIT_S_MAX
        with self._changed:
            if time.monotonic() - self._fetched_at_s < DEMAND_S_MIN:
                return
            fetches = self._fetches
            self._is_demanded = True
            self._changed.notify_all()
            while self._fetches == fetches and not self._closed and (left_s := deadline_s - time.monotonic()) > 0:
                self._changed.wait(left_s)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _fetch_repeatedly(self) -> None:
        assert self._url is not None
        while not self._closed:
            try:
                keys, error = parse_keys(self._fetch(self._url), self._url), None
            except KeysUnavailable as failure:
                keys, error = {}, str(failure)
            if error is None:
                self._keys = keys
                log.info("the keys of the OpenID Connect provider were read", url=self._url, keys=len(keys))
            else:
                log.warning(
                    "the keys of the OpenID Connect provider cannot be read; trying again. The static tokens of tuner.http and the "
                    "keys that were read before stay valid",
                    error=error,
                    known_keys=len(self._keys),
                )
            with self._changed:
                self._fetches += 1
                self._fetched_at_s = time.monotonic()
                self._is_demanded = False
                self._changed.notify_all()
            self._pause(REFRESH_S if error is None else 2 * DEMAND_S_MIN)

    def _pause(self, duration_s: float) -> None:
        """Waits for ``duration_s``, or until a request demands new keys."""
        until_s = time.monotonic() + duration_s
        with self._changed:
            while not self._closed and not self._is_demanded and (left_s := until_s - time.monotonic()) > 0:
                self._changed.wait(left_s)

    def _fetch(self, url: str) -> bytes:
        try:
            return fetch(url, ssl.create_default_context(cafile=self._cafile), _REQUEST_S_MAX)
        except urllib.error.HTTPError as error:
            error.close()
            hint = "; a redirect is not followed: set jwks_url to its target" if 300 <= error.code < 400 else ""
            raise KeysUnavailable(f"{url} answers with the status {error.code}{hint}") from error
        except TimeoutError as error:
            raise KeysUnavailable(f"{url} did not answer within {_REQUEST_S_MAX:g} s") from error
        except urllib.error.URLError as error:
            raise KeysUnavailable(f"{url} cannot be reached: {error.reason}") from error
        except Exception as error:
            raise KeysUnavailable(f"{url} gives no answer: {type(error).__name__}: {error}") from error

    def _read_changed_file(self, file: str) -> None:
        """Reads the file if it has changed. A file that cannot be used changes nothing."""
        with self._changed:
            now_s = time.monotonic()
            if now_s - self._checked_at_s < _FILE_CHECK_S:
                return
            self._checked_at_s = now_s
            stamp = file_stamp(file)
            if stamp == self._stamp:
                return
            self._stamp = stamp
        try:
            self._keys = parse_keys(Path(file).read_bytes(), file)
            log.info("the keys of the OpenID Connect provider were read", file=file, keys=len(self._keys))
        except (KeysUnavailable, OSError) as error:
            log.error(
                "the file of tuner.http.oidc.jwks_file cannot be used, and the keys that were read before stay valid: correct "
                "the file",
                file=file,
                error=str(error),
                known_keys=len(self._keys),
            )


def parse_keys(body: bytes, name: str) -> dict[str, jwt.PyJWK]:
    """Returns the keys for signatures by key id. Keys of other kinds are left out.

    Args:
        name: the URL or the file, for messages.

    Raises:
        KeysUnavailable: there is no such key.
    """
    try:
        document = json.loads(body)
    except ValueError as error:
        raise KeysUnavailable(f"{name} is not JSON") from error
    entries = document.get("keys") if isinstance(document, dict) else None
    keys = {}
    for entry in entries if isinstance(entries, list) else ():
        key = _usable_key(entry)
        if key is not None:
            keys[str(key.key_id or "")] = key
    if not keys:
        raise KeysUnavailable(f"{name} has no RSA key and no key of the curve P-256")
    return keys


def _usable_key(entry: Any) -> jwt.PyJWK | None:
    # An entry with "d" is a private key, which a provider never publishes on purpose.
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig" or "d" in entry:
        return None
    algorithm = ALGORITHMS.get(str(entry.get("kty")))
    if algorithm is None or entry.get("alg", algorithm) != algorithm or entry.get("crv", "P-256") != "P-256":
        return None
    try:
        return jwt.PyJWK(entry, algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
