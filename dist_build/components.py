"""Lists the components of an installation of rheostat, and of its container image.

An installation consists of the Python packages of the lock file and of JVM artifacts. The lock file and conf/jvm/ivy.sha256 pin
each of them by its digest. The licence of a Python package is that of its installed metadata, and the licence of a JVM artifact is
in conf/jvm/licences.csv. The components of an image come from dist_build/inventory.py, which runs inside of it.
"""

from __future__ import annotations

import csv
import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from packageurl import PackageURL

from dist_build.inventory import find_jars, licence_of
from rheostat.jvm.digests import read_digests

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"
IVY = ROOT / "conf" / "jvm" / "ivy.xml"
JVM_LICENCES = ROOT / "conf" / "jvm" / "licences.csv"
PYTHON, JVM, DEBIAN, UNKNOWN = "pypi", "maven", "deb", "generic"
_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)(?:\s*;\s*([^\\\n]+?))?\s*\\?$", re.M)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_PYSPARK = "pyspark"
# Packages for another system than the one that makes the list.
_LICENCES_ELSEWHERE = {"colorama": "BSD License"}


@dataclass(frozen=True, slots=True)
class PackagedComponent:
    """A Python package, a JVM artifact or a Debian package.

    Attributes:
        kind: the type in its package URL: pypi, maven, deb, or generic for a jar that does not say its group.
        licence: an SPDX expression, or the licence's name in the package's metadata; empty: the package names none.
        digests: SHA-256 of the file; several if a package has a file for each system.
        group: the group in Maven Central, or the distribution; empty for a Python package.
        condition: the environment marker of the lock file; empty: for every system.
        used_for: the configurations of the Ivy file that contain the artifact.
        architecture: the architecture of a Debian package.
        parts: the components that it contains.
    """

    kind: str
    name: str
    version: str
    licence: str
    digests: tuple[str, ...] = ()
    group: str = ""
    condition: str = ""
    used_for: tuple[str, ...] = ()
    architecture: str = ""
    parts: tuple[PackagedComponent, ...] = ()

    @property
    def package_url(self) -> str:
        """Its package URL (purl), such as pkg:pypi/rich@15.0.0."""
        qualifiers = {"type": "jar"} if self.kind == JVM else {}
        if self.architecture:
            qualifiers["arch"] = self.architecture
        return str(PackageURL(self.kind, self.group or None, self.name, self.version or None, qualifiers))


def python_components(lock: str, find_licence: Callable[[str], str | None] | None = None) -> list[PackagedComponent]:
    """Returns the packages of a lock file in its order.

    Args:
        find_licence: returns the licence of a package by its name; by default that of the installed package.

    Raises:
        ValueError: a package has no digest, or its licence is not known.
    """
    return list(_python_components(lock, find_licence or installed_licence))


def _python_components(lock: str, find_licence: Callable[[str], str | None]) -> Iterator[PackagedComponent]:
    requirements = list(_REQUIREMENT.finditer(lock))
    ends = [*(match.start() for match in requirements[1:]), len(lock)]
    for match, end in zip(requirements, ends, strict=True):
        name, version, condition = match[1], match[2], match[3] or ""
        digests = tuple(_HASH.findall(lock, match.end(), end))
        licence = find_licence(name)
        if not digests:
            raise ValueError(f"{name} has no digest in the lock file: run `make lock`")
        if licence is None:
            raise ValueError(
                f"the licence of {name} is not known: run `make venv`, or name it in dist_build/components.py"
            )
        yield PackagedComponent(
            kind=PYTHON,
            name=name,
            version=version,
            licence=licence,
            digests=digests,
            condition=condition,
            parts=_jars_of_pyspark(version) if name == _PYSPARK else (),
        )


def installed_licence(name: str) -> str | None:
    """Returns the licence that the installed package's metadata name; None if they name none."""
    try:
        described = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return _LICENCES_ELSEWHERE.get(name)
    return licence_of(described) or None


@cache
def _jars_of_pyspark(version: str) -> tuple[PackagedComponent, ...]:
    """Returns the jars in the installed PySpark; none if another version is installed, or none at all."""
    spec = importlib.util.find_spec(_PYSPARK)
    if spec is None or spec.origin is None or metadata.version(_PYSPARK) != version:
        return ()
    return tuple(map(_jar_component, find_jars(Path(spec.origin).parent / "jars")))


def _jar_component(jar: Mapping[str, str]) -> PackagedComponent:
    return PackagedComponent(
        kind=JVM if jar["group"] else UNKNOWN,
        name=jar["name"],
        version=jar["version"],
        licence=jar["licence"],
        digests=(jar["sha256"],),
        group=jar["group"],
    )


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
            kind=JVM,
            name=name,
            version=version,
            licence=rows[name]["licence"],
            digests=(digest,),
            group=rows[name]["group"],
            used_for=tuple(configurations),
        )
        for (name, version, digest), configurations in sorted(uses.items())
    ]


def image_components(
    inventory: Mapping[str, list[dict[str, Any]]], known: list[PackagedComponent]
) -> list[PackagedComponent]:
    """Returns the components of a container image.

    Args:
        inventory: the output of dist_build/inventory.py inside of the image.
        known: components of the wheel; their groups and licences are used for jars with the same digest.
    """
    by_digest = {component.digests[0]: component for component in known if component.kind == JVM}
    debian = [PackagedComponent(kind=DEBIAN, group="debian", **package) for package in inventory["debian"]]
    python = [PackagedComponent(kind=PYTHON, **package) for package in inventory["python"]]
    jars = [by_digest.get(jar["sha256"]) or _jar_component(jar) for jar in inventory["jars"]]
    return [*debian, *python, *jars]
