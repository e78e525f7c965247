"""Lists the components that an installation of rheostat consists of: Python packages of the lock file, and JVM artifacts.

The lock file and conf/jvm/ivy.sha256 pin each component by its digest, so the list needs no network. The licence of a Python
package is that of its installed metadata, and the licence of a JVM artifact is in conf/jvm/licences.csv.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from rheostat.jvm.digests import read_digests

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"
IVY = ROOT / "conf" / "jvm" / "ivy.xml"
JVM_LICENCES = ROOT / "conf" / "jvm" / "licences.csv"
_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)(?:\s*;\s*([^\\\n]+?))?\s*\\?$", re.M)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_LICENCE_CHARACTERS_MAX = 60  # A longer text is the whole licence, not its name.
# Packages for another system than the one that makes the list.
_LICENCES_ELSEWHERE = {"colorama": "BSD License"}


@dataclass(frozen=True, slots=True)
class PackagedComponent:
    """A Python package or a JVM artifact.

    Attributes:
        group: the group in Maven Central; empty for a Python package.
        licence: an SPDX expression, or the licence's name in the package's metadata.
        digests: SHA-256 of the file; several if a package has a file for each system.
        condition: the environment marker of the lock file; empty: for every system.
        used_for: the configurations of the Ivy file that contain the artifact.
    """

    name: str
    version: str
    licence: str
    digests: tuple[str, ...]
    group: str = ""
    condition: str = ""
    used_for: tuple[str, ...] = ()

    @property
    def package_url(self) -> str:
        if self.group:
            return f"pkg:maven/{self.group}/{self.name}@{self.version}?type=jar"
        return f"pkg:pypi/{self.name.lower().replace('_', '-')}@{self.version}"


def python_components(lock: str, licence_of: Callable[[str], str | None] | None = None) -> list[PackagedComponent]:
    """Returns the packages of a lock file in its order.

    Args:
        licence_of: returns the licence of a package by its name; by default that of the installed package.

    Raises:
        ValueError: a package has no digest, or its licence is not known.
    """
    return list(_python_components(lock, licence_of or installed_licence))


def _python_components(lock: str, licence_of: Callable[[str], str | None]) -> Iterator[PackagedComponent]:
    requirements = list(_REQUIREMENT.finditer(lock))
    ends = [*(match.start() for match in requirements[1:]), len(lock)]
    for match, end in zip(requirements, ends, strict=True):
        name, version, condition = match[1], match[2], match[3] or ""
        digests = tuple(_HASH.findall(lock, match.end(), end))
        licence = licence_of(name)
        if not digests:
            raise ValueError(f"{name} has no digest in the lock file: run `make lock`")
        if licence is None:
            raise ValueError(
                f"the licence of {name} is not known: run `make venv`, or name it in dist_build/components.py"
            )
        yield PackagedComponent(name=name, version=version, licence=licence, digests=digests, condition=condition)


def installed_licence(name: str) -> str | None:
    """Returns the licence that the installed package's metadata name; None if they name none."""
    try:
        described = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return _LICENCES_ELSEWHERE.get(name)
    fields = [described.get("License-Expression"), described.get("License")]
    for text in fields:
        if text and "\n" not in text and len(text) <= _LICENCE_CHARACTERS_MAX:
            return str(text)
    prefix = "License :: OSI Approved :: "
    named = [c.removeprefix(prefix) for c in described.get_all("Classifier") or () if c.startswith(prefix)]
    return " OR ".join(named) or None


def jvm_components(ivy_xml: Path = IVY, licences: Path = JVM_LICENCES) -> list[PackagedComponent]:
    """Returns the JVM artifacts of an Ivy file, each once, by name.

    Raises:
        ValueError: an artifact has no row in the table of licences, or a row has no artifact.
    """
    with licences.open(encoding="utf-8", newline="") as file:
        rows = {row["artifact"]: row for row in csv.DictReader(file)}
    uses: dict[tuple[str, str, str], list[str]] = {}
    for path, digest in read_digests(ivy_xml).items():
        configuration, _, file_name = path.partition("/")
        # The longest name that fits: kafka-tools-api-4.2.0.jar begins like kafka-tools.
        fitting = [name for name in rows if re.fullmatch(re.escape(name) + r"-\d[^/]*\.jar", file_name)]
        if not fitting:
            raise ValueError(f"{file_name} has no row in {licences}: add its group and its licence")
        name = max(fitting, key=len)
        version = file_name.removeprefix(f"{name}-").removesuffix(".jar")
        uses.setdefault((name, version, digest), []).append(configuration)
    if unused := rows.keys() - {name for name, _, _ in uses}:
        raise ValueError(f"{licences} has rows without an artifact: {', '.join(sorted(unused))}")
    return [
        PackagedComponent(
            name=name,
            version=version,
            licence=rows[name]["licence"],
            digests=(digest,),
            group=rows[name]["group"],
            used_for=tuple(configurations),
        )
        for (name, version, digest), configurations in sorted(uses.items())
    ]
