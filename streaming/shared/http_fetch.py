"""Fetches a document over HTTP or HTTPS, in limited time and size, and only from the address that the settings name."""

from __future__ import annotations

import ssl
import time
import urllib.error
import urllib.request
from typing import Any

BODY_BYTES_MAX = 1 << 20


def fetch(request: urllib.request.Request | str, context: ssl.SSLContext, timeout_s: float) -> bytes:
    """Returns the body of the answer, not much more of it than ``BODY_BYTES_MAX``.

    A redirect is not followed, because it could carry a secret to another host, or give an answer over plain HTTP.

    Raises:
        TimeoutError: the whole answer did not come within about ``timeout_s``.
        urllib.error.HTTPError: the answer has another status than success, such as that of a redirect.
        urllib.error.URLError: the server cannot be reached.
        OSError, http.client.HTTPException: the answer is broken off, or it is not HTTP.
    """
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _NoRedirects)
    deadline_s = time.monotonic() + timeout_s
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            return read_body(answer, deadline_s)
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise TimeoutError from error
        raise


def read_body(answer: Any, deadline_s: float) -> bytes:
    """Returns the body of an answer or of an ``HTTPError``; raises TimeoutError for a body that is sent too slowly."""
    body = bytearray()
    while len(body) < BODY_BYTES_MAX and (chunk := answer.read1(65536)):
        body += chunk
        if time.monotonic() > deadline_s:
            raise TimeoutError
    return bytes(body)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002 - the base class's signature
        return None
