"""Reads, writes and checks the list of SHA-256 digests of the JVM artifacts, which is beside the Ivy file that pins them.

A list has the format of ``sha256sum``: a digest, two spaces, and the file's name with its configuration as folder
(``kafka/kafka-clients-4.2.0.jar``). So ``sha256sum --check`` can read the list as well.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from rheostat.errors import SetupError

_LINE = re.compile(r"([0-9a-f]{64})  (\w+/[^/\s]+\.jar)")


def digests_file(ivy_xml: Path) -> Path:
    """Returns the list that belongs to this Ivy file: ``ivy.xml`` → ``ivy.sha256``."""
    return ivy_xml.with_suffix(".sha256")


def read_digests(ivy_xml: Path) -> dict[str, str]:
    """Returns the SHA-256 (hexadecimal) of each file by its name, such as ``kafka/kafka-clients-4.2.0.jar``.

    Raises:
        SetupError: the list is missing, empty or has another format.
    """
    path = digests_file(ivy_xml)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise SetupError(f"{path} cannot be read ({error}): reinstall rheostat.") from error
    matches = [_LINE.fullmatch(line) for line in lines]
    digests = {match[2]: match[1] for match in matches if match is not None}
    if not digests or len(digests) != len(lines):
        raise SetupError(f"{path} is not a list of SHA-256 digests: reinstall rheostat.")
    return digests


def write_digests(ivy_xml: Path, folder: Path) -> None:
    """Replaces the list by the digests of the jars in ``folder``, after a maintainer has changed a version."""
    jars = sorted(folder.glob("*/*.jar"))
    lines = [f"{sha256_of(jar)}  {jar.relative_to(folder)}\n" for jar in jars]
    digests_file(ivy_xml).write_text("".join(lines), encoding="utf-8")


def sha256_of(path: Path) -> str:
    """Returns the digest of the file's content in hexadecimal digits. 60 MB take about 0.1 s."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def mismatch(folder: Path, digests: Mapping[str, str]) -> str | None:
    """Returns a text about the first file that is missing or differs from the list; None if all files match the list."""
    for name, expected in digests.items():
        path = folder / name
        try:
            actual = sha256_of(path)
        except OSError as error:
            return f"{path} is missing or cannot be read ({error.strerror})"
        if actual != expected:
            return f"{path} is damaged or was changed (SHA-256 expected {expected}, found {actual})"
    return None
