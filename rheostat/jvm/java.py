"""Finds the Java to run. Kafka 4 and Spark 4 need Java 17 or newer."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rheostat.errors import SetupError

JAVA_MAJOR_MIN = 17
_REMEDY = "install Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless), or set JAVA_HOME to its folder"


@dataclass(frozen=True, slots=True)
class Java:
    executable: Path
    major: int
    version: str = ""  # The output of `java -version`.


def find_java() -> Java:
    """Returns the Java in JAVA_HOME, or if that is not set, in PATH.

    Raises:
        SetupError: there is no Java, it does not run, or it is older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        executable = Path(home) / "bin" / "java"
        where = f"JAVA_HOME={home}"
        if not executable.exists():
            raise SetupError(
                f"No Java at {where} (no bin/java in it): set JAVA_HOME to the folder of Java 17 or newer, or unset it to use the "
                "Java on PATH."
            )
    else:
        path_java = shutil.which("java")
        if path_java is None:
            raise SetupError(f"No Java on PATH and JAVA_HOME is not set: {_REMEDY}.")
        executable = Path(path_java)
        where = path_java
    try:
        version_text = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=30, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise SetupError(f"Java at {where} does not run ({error}): {_REMEDY}.") from error
    major = _major(version_text)
    if major is None:
        raise SetupError(f"Java at {where} does not report its version ({version_text.strip()[:80]!r}): {_REMEDY}.")
    if major < JAVA_MAJOR_MIN:
        raise SetupError(f"Java {major} at {where} is too old, {JAVA_MAJOR_MIN} or newer is needed: {_REMEDY}.")
    return Java(executable, major, version_text.strip())


def _major(version_text: str) -> int | None:
    """Returns the major version: 17 for 'openjdk version "17.0.15"', 8 for 'java version "1.8.0_392"'."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', version_text)
    if match is None:
        return None
    first = int(match.group(1))
    return int(match.group(2)) if first == 1 and match.group(2) else first
