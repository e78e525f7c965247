"""Sends one request to a service outside rheostat, in limited time and size, and names the failure."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from enum import StrEnum
from http.client import HTTPException

from streaming.shared.contract.bounds import error_text
from streaming.shared.http_fetch import BODY_BYTES_MAX, fetch


class FailureKind(StrEnum):
    """Why a service gave no usable answer: a word for metrics."""

    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    STATUS = "status"
    REDIRECT = "redirect"
    TOO_LARGE = "too_large"
    NOT_JSON = "not_json"
    NO_VALUE = "no_value"
    NOT_A_NUMBER = "not_a_number"
    SECRET = "secret"  # A secret for the request cannot be read.


class NoAnswer(Exception):
    """A service gave no usable answer. The text says why."""

    def __init__(self, kind: FailureKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def send(request: urllib.request.Request, cafile: str | None, timeout_s: float) -> bytes:
    """Returns the body of the answer. It follows no redirect.

    Raises:
        NoAnswer: there is no complete answer that reports success.
    """
    try:
        body = fetch(request, ssl.create_default_context(cafile=cafile), timeout_s)
    except urllib.error.HTTPError as error:
        error.close()
        if 300 <= error.code < 400:
            raise NoAnswer(
                FailureKind.REDIRECT, f"it answers with the redirect {error.code}, which is not followed"
            ) from error
        raise NoAnswer(FailureKind.STATUS, f"it answers with the status {error.code}") from error
    except TimeoutError as error:
        raise NoAnswer(FailureKind.TIMEOUT, f"it did not answer within {timeout_s:g} s") from error
    except urllib.error.URLError as error:
        raise NoAnswer(FailureKind.UNREACHABLE, f"it cannot be reached: {error.reason}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise NoAnswer(
            FailureKind.UNREACHABLE, f"it gives no answer: {type(error).__name__}: {error_text(error)}"
        ) from error
    if len(body) >= BODY_BYTES_MAX:
        raise NoAnswer(FailureKind.TOO_LARGE, f"its answer has {BODY_BYTES_MAX >> 20} MiB or more")
    return body
