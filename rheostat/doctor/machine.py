"""This machine: Java, the JVM artifacts, the folder of the checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator

from rheostat.doctor.findings import Finding, Verdict
from rheostat.errors import SetupError
from rheostat.jvm.artifacts import artifacts_present
from rheostat.jvm.java import find_java
from rheostat.settings import Settings


def machine() -> Iterator[Finding]:
    try:
        java = find_java()
        yield Finding("java", Verdict.OK, f"{java.major} at {java.executable}")
    except SetupError as error:
        yield Finding("java", Verdict.FAILED, str(error), "see above; only the stream needs Java")
    try:
        if artifacts_present():
            yield Finding("JVM artifacts", Verdict.OK, "in the cache, whole")
        else:
            yield Finding(
                "JVM artifacts", Verdict.ADVICE, "not in the cache yet",
                "they are fetched at the first start (60 MB); `rheostat doctor --fetch` does it now",
            )  # fmt: skip
    except SetupError as error:
        yield Finding("JVM artifacts", Verdict.FAILED, str(error), "remove the folder it names")


def checkpoint(settings: Settings) -> Finding:
    folder = settings.stream.checkpoint_dir
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if os.access(nearest, os.W_OK | os.X_OK) and nearest.is_dir():
        return Finding("checkpoint folder", Verdict.OK, str(folder))
    return Finding(
        "checkpoint folder", Verdict.FAILED, f"{folder} cannot be made or written by this user",
        "let stream.checkpoint_dir name a folder that this user may write",
    )  # fmt: skip
