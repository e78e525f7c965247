"""Lists what is installed, as JSON on stdout: Debian packages, Python packages and jars, with their licences.

It needs only Python's standard library, so it also runs inside of the container image:

    docker run --rm --interactive --entrypoint python3 IMAGE - /opt < dist_build/inventory.py

Its arguments are folders that are searched for Python packages and jars.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

# A longer text is a whole licence, and not its name.
_LICENCE_CHARACTERS_MAX = 60
_CLASSIFIER = "License :: OSI Approved :: "
# The name may end with a Scala version, after an underscore: spark-sql-kafka-0-10_2.13-4.2.0.jar.
_JAR_NAME = re.compile(r"(.+?)-(\d[^_]*)\.jar")
_LICENCES_OF_JARS = {"Apache-2.0": "Apache-2.0", "apache.org/licenses/LICENSE-2.0": "Apache-2.0"}


def licence_of(described: metadata.PackageMetadata) -> str:
    """Returns the licence that the metadata of a Python package name; empty if they name none."""
    for key in ("License-Expression", "License"):
        text = str(described[key]) if key in described else ""
        if text and "\n" not in text and len(text) <= _LICENCE_CHARACTERS_MAX:
            return text
    named = [str(text) for text in described.get_all("Classifier") or () if str(text).startswith(_CLASSIFIER)]
    return " OR ".join(text.removeprefix(_CLASSIFIER) for text in named)


def describe_jar(path: Path) -> dict[str, str]:
    """Returns name, version, group and licence of a jar, each empty if the jar does not say it, and its digest."""
    group = name = version = licence = ""
    with zipfile.ZipFile(path) as jar:
        # A jar may contain others; its own coordinates are those that make its file name.
        for entry in (entry for entry in jar.namelist() if re.fullmatch(r"META-INF/maven/.+/pom\.properties", entry)):
            text = jar.read(entry).decode("utf-8", "replace")
            found = dict(re.findall(r"^(groupId|artifactId|version)\s*=\s*(\S+)", text, re.M))
            if path.name == f"{found.get('artifactId')}-{found.get('version')}.jar":
                group, name, version = found.get("groupId", ""), found["artifactId"], found["version"]
        if "META-INF/MANIFEST.MF" in jar.namelist():
            manifest = (
                jar.read("META-INF/MANIFEST.MF").decode("utf-8", "replace").replace("\r\n ", "").replace("\n ", "")
            )
            stated = next((line for line in manifest.splitlines() if line.startswith("Bundle-License:")), "")
            licence = next((spdx for sign, spdx in _LICENCES_OF_JARS.items() if sign in stated), "")
    if not name and (match := _JAR_NAME.fullmatch(path.name)):
        name, version = match[1], match[2]
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "name": name or path.stem,
        "version": version,
        "group": group,
        "licence": licence,
        "sha256": digest,
    }


def find_jars(folder: Path) -> list[dict[str, str]]:
    """Returns the jars below a folder, each content once, by name."""
    by_digest = {jar["sha256"]: jar for jar in map(describe_jar, sorted(folder.rglob("*.jar")))}
    return sorted(by_digest.values(), key=lambda jar: (jar["name"], jar["version"]))


def find_python_packages(folder: Path) -> Iterator[dict[str, str]]:
    """Yields name, version and licence of the Python packages below a folder."""
    for site in sorted(folder.rglob("site-packages")):
        for package in sorted(metadata.distributions(path=[str(site)]), key=lambda found: found.name.lower()):
            yield {"name": package.name, "version": package.version, "licence": licence_of(package.metadata)}


def find_debian_packages(docs: Path = Path("/usr/share/doc")) -> Iterator[dict[str, str]]:
    """Yields name, version, architecture and licences of the installed Debian packages."""
    query = ["dpkg-query", "--show", "--showformat", "${db:Status-Abbrev}\t${Package}\t${Version}\t${Architecture}\n"]
    done = subprocess.run(query, capture_output=True, text=True, timeout=60, check=True)
    for line in done.stdout.splitlines():
        status, name, version, architecture = line.split("\t")
        if status.startswith("ii"):
            licence = debian_licences(docs / name / "copyright")
            yield {"name": name, "version": version, "architecture": architecture, "licence": licence}


def debian_licences(copyright_file: Path) -> str:
    """Returns the names of the licences in a copyright file, in Debian's format; empty if it has another format."""
    try:
        text = copyright_file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    names = re.findall(r"^License:[ \t]*(\S.*?)[ \t]*$", text, re.M)
    return ", ".join(dict.fromkeys(names))


def inventory(folders: Iterable[Path]) -> dict[str, Any]:
    """Returns the lists of all three kinds."""
    folders = list(folders)
    return {
        "debian": list(find_debian_packages()),
        "python": [package for folder in folders for package in find_python_packages(folder)],
        "jars": [jar for folder in folders for jar in find_jars(folder)],
    }


if __name__ == "__main__":
    json.dump(inventory(map(Path, sys.argv[1:])), sys.stdout)
