"""Reads the secrets of logins from files, as Kubernetes and systemd mount them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kafka.errors import SaslAuthenticationFailedError


class LoginError(SaslAuthenticationFailedError):  # type: ignore[misc]  # kafka-python has no types
    """No login was attempted, because its password or token is not available. The text names the setting and the cause.

    It is a subclass of kafka-python's error, so that callers handle it like a login that the brokers refuse.
    """

    def __str__(self) -> str:
        return str(self.args[0])


def check_readable(setting: str, path: str) -> None:
    """Checks that a file can be opened.

    Args:
        setting: the key that names the file, for the message.

    Raises:
        LoginError: the file cannot be opened.
    """
    try:
        Path(path).open("rb").close()
    except OSError as error:
        raise LoginError(f"kafka.{setting}: {path} cannot be read: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True)
class SecretFile:
    """A file whose only line is a secret. It is read for each login, so that a new secret needs no restart.

    Attributes:
        setting: the key that names the file, for messages.
        section: the section of the settings file that has the key.
    """

    setting: str
    path: str
    section: str = "kafka"

    def read(self) -> str:
        """Returns the secret.

        Raises:
            LoginError: the file cannot be read, or does not have exactly one line.
        """
        try:
            text = Path(self.path).read_text(encoding="utf-8")
        except OSError as error:
            raise LoginError(
                f"{self.section}.{self.setting}: {self.path} cannot be read: {error.strerror or error}"
            ) from error
        except UnicodeDecodeError as error:
            raise LoginError(
                f"{self.section}.{self.setting}: {self.path} is not UTF-8 text (byte {error.start})"
            ) from error
        lines = text.splitlines()
        if len(lines) != 1 or not lines[0]:
            raise LoginError(
                f"{self.section}.{self.setting}: {self.path} must have one line, the secret, and has {len(lines)}"
            )
        return lines[0]
