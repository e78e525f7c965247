"""The SHA-256 of every JVM artifact, as the repository lists them beside the Ivy file that pins their versions.

A list has the form of ``sha256sum``: a digest, two spaces, and the file's name with its configuration as folder
(``kafka/kafka-clients-4.2.0.jar``). So ``sha256sum --check`` reads it as well.
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
    """Returns the file name (``use/artifact.jar``) → SHA-256 in hexadecimal digits.

    Raises:
        SetupError: the list is missing, empty or not of this form.
    """
    path = digests_file(ivy_xml)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise SetupError(f"{path} cannot be read ({error}): install rheostat anew.") from error
    matches = [_LINE.fullmatch(line) for line in lines]
    digests = {match[2]: match[1] for match in matches if match is not None}
    if not digests or len(digests) != len(lines):
        raise SetupError(f"{path} is not a list of SHA-256 digests: install rheostat anew.")
    return digests


def write_digests(ivy_xml: Path, folder: Path) -> None:
    """Writes the list anew from the jars in ``folder``. For a maintainer who changes a version."""
    jars = sorted(folder.glob("*/*.jar"))
    lines = [f"{sha256_of(jar)}  {jar.relative_to(folder)}\n" for jar in jars]
    digests_file(ivy_xml).write_text("".join(lines), encoding="utf-8")


def sha256_of(path: Path) -> str:
    """Returns the digest of the file's content in hexadecimal digits. 60 MB take about 0.1 s."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def mismatch(folder: Path, digests: Mapping[str, str]) -> str | None:
    """Returns what is wrong with the first file that is missing or differs from the list; None when all are as listed."""
    for name, expected in digests.items():
        path = folder / name
        try:
            actual = sha256_of(path)
        except OSError as error:
            return f"{path} is missing or cannot be read ({error.strerror})"
        if actual != expected:
            return f"{path} is damaged or was changed (SHA-256 expected {expected}, found {actual})"
    return None
