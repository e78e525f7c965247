"""The TLS certificate of the HTTP server. Its files are read again when they change."""

from __future__ import annotations

import ssl

import structlog

from streaming.shared.file_stamp import FileStamp, file_stamp
from tuner.api.auth import CredentialsError

log = structlog.get_logger("tuner")


class Certificate:
    """Keeps the TLS context of the newest usable certificate and key."""

    def __init__(self, certfile: str, keyfile: str) -> None:
        """
        Raises:
            CredentialsError: the files cannot be used.
        """
        self._files = (certfile, keyfile)
        self._loaded_stamp = self._last_stamp = self._stamp()
        self._reload_requested = False
        self._context = self._load()

    def context(self) -> ssl.SSLContext:
        """Returns the context for the next connection."""
        return self._context

    def request_reload(self) -> None:
        """Makes the next check read the files again, even if they have not changed; any thread may call it."""
        self._reload_requested = True

    def reload_if_changed(self) -> None:
        """Reads the files again if they have changed. The server calls it every few seconds.

        An operator replaces certificate and key one after the other. So changed files are read only once two checks in a row find
        the same state of both. If the files cannot be used, the previous certificate stays in use.
        """
        requested, self._reload_requested = self._reload_requested, False
        stamp = self._stamp()
        has_settled, self._last_stamp = stamp == self._last_stamp, stamp
        if not requested and (stamp == self._loaded_stamp or not has_settled):
            return
        self._loaded_stamp = stamp
        certfile, keyfile = self._files
        try:
            self._context = self._load()
        except CredentialsError as error:
            log.error(
                "the changed certificate of tuner.http cannot be used, so the previous one stays in use: provide a certificate "
                "and its matching key",
                error=str(error),
            )
        else:
            log.info("the certificate of tuner.http was read again", certfile=certfile, keyfile=keyfile)

    def _load(self) -> ssl.SSLContext:
        """
        Raises:
            CredentialsError: the files cannot be used.
        """
        certfile, keyfile = self._files
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            # An empty password turns an encrypted key into an error; without it OpenSSL would ask on the terminal.
            context.load_cert_chain(certfile, keyfile, password="")
        except OSError as error:  # ssl.SSLError is a subclass.
            reason = error.strerror or error
            raise CredentialsError(
                f"the certificate {certfile} and the key {keyfile} cannot be used: {reason}"
            ) from error
        return context

    def _stamp(self) -> tuple[FileStamp | None, ...]:
        return tuple(file_stamp(file) for file in self._files)
