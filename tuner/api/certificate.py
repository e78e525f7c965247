"""The certificate of the HTTP server, which is read again when its files change."""

from __future__ import annotations

import ssl

import structlog

from streaming.shared.file_stamp import FileStamp, file_stamp
from tuner.api.auth import AccessError

log = structlog.get_logger("tuner")


class Certificate:
    """Keeps the TLS context of the newest certificate and key that could be read."""

    def __init__(self, certfile: str, keyfile: str) -> None:
        """
        Raises:
            AccessError: the files cannot be used.
        """
        self._files = (certfile, keyfile)
        self._used = self._seen = self._stamp()
        self._asked = False
        self._context = self._load()

    def context(self) -> ssl.SSLContext:
        """Returns the context for the next connection."""
        return self._context

    def ask(self) -> None:
        """Has the files read again at the next look, changed or not; any thread may call it."""
        self._asked = True

    def look(self) -> None:
        """Reads the files again when they have changed; to be called every few seconds.

        They are read at the second look that finds them the same, as certificate and key are not replaced at one moment. Files
        that cannot be used change nothing.
        """
        asked, self._asked = self._asked, False
        stamp = self._stamp()
        has_settled, self._seen = stamp == self._seen, stamp
        if not asked and (stamp == self._used or not has_settled):
            return
        self._used = stamp
        certfile, keyfile = self._files
        try:
            self._context = self._load()
        except AccessError as error:
            log.error(
                "the certificate of tuner.http has changed and cannot be used; the one from before stays in use. Put a certificate "
                "and its key there that belong together",
                error=str(error),
            )
        else:
            log.info("the certificate of tuner.http was read again", certfile=certfile, keyfile=keyfile)

    def _load(self) -> ssl.SSLContext:
        """
        Raises:
            AccessError: the files cannot be used.
        """
        certfile, keyfile = self._files
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            # With a password given, a key that needs one is an error, and not a question on the terminal.
            context.load_cert_chain(certfile, keyfile, password="")
        except OSError as error:  # ssl.SSLError is one.
            raise AccessError(f"{certfile} and {keyfile}: {error.strerror or error}") from error
        return context

    def _stamp(self) -> tuple[FileStamp | None, ...]:
        return tuple(file_stamp(file) for file in self._files)
