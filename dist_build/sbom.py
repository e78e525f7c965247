"""Writes the components of rheostat as a software bill of materials (CycloneDX 1.6, JSON), and the list of their licences.

    python -m dist_build.sbom DIR    write rheostat-VERSION.cdx.json and rheostat-VERSION.licences.md

The same source gives the same bytes: the time is SOURCE_DATE_EPOCH, and the serial number depends on the content only.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from dist_build.components import DEBIAN, JVM, LOCK, PYTHON, PackagedComponent, jvm_components, python_components

_NAME = "rheostat"
_LICENCE = "Apache-2.0"
_EPOCH_S_DEFAULT = 1_580_601_600  # As hatchling gives to the files of a wheel.
_KINDS = {PYTHON: "Python", DEBIAN: "Debian"}


def all_components() -> list[PackagedComponent]:
    """Returns the Python packages and the JVM artifacts of this version."""
    return [*python_components(LOCK.read_text(encoding="utf-8")), *jvm_components()]


def epoch_s() -> int:
    """Returns the time for a bill, in seconds since 1970: SOURCE_DATE_EPOCH, or a fixed one."""
    return int(os.environ.get("SOURCE_DATE_EPOCH", _EPOCH_S_DEFAULT))


def sbom_json(components: Iterable[PackagedComponent], time_s: int, *, is_image: bool = False) -> str:
    """Returns the bill of materials.

    Args:
        time_s: the time in the bill, in seconds since 1970.
        is_image: the components are those of a container image.

    Raises:
        ValueError: the bill does not fit CycloneDX's schema.
    """
    subject = Component(
        name=_NAME,
        version=version(_NAME),
        type=ComponentType.CONTAINER if is_image else ComponentType.APPLICATION,
        bom_ref=_NAME,
        licenses=[LicenseFactory().make_from_string(_LICENCE)],
    )
    described = list(components)
    bom = Bom(components=[_component(component) for component in described])
    bom.metadata.component = subject
    bom.metadata.timestamp = datetime.fromtimestamp(time_s, UTC)
    bom.register_dependency(subject, bom.components)
    content = " ".join(sorted(f"{c.package_url} {c.digests}" for c in described))
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, f"{_NAME} {subject.version} {content}")
    text: str = JsonV1Dot6(bom).output_as_string(indent=1)
    if (fault := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)) is not None:
        raise ValueError(f"the bill of materials does not fit the schema of CycloneDX 1.6: {fault}")
    return text + "\n"


def _component(component: PackagedComponent, *, inside: str = "") -> Component:
    """Returns the entry of a component.

    Args:
        inside: the reference of the component that contains it, since references must be unique in a bill.
    """
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in component.digests]
    properties = [Property(name="rheostat:used-for", value=use) for use in component.used_for]
    if component.condition:
        properties.append(Property(name="rheostat:environment-marker", value=component.condition))
    # A Python package has a file for each system, so the digests are those of its files, and not of the component.
    is_python = component.kind == PYTHON
    reference = f"{inside}{component.package_url}"
    if hashes and not is_python:
        reference += f"#{component.digests[0][:12]}"
    return Component(
        name=component.name,
        version=component.version or None,
        group=component.group or None,
        type=ComponentType.LIBRARY,
        bom_ref=reference,
        purl=PackageURL.from_string(component.package_url),
        licenses=[LicenseFactory().make_from_string(component.licence)] if component.licence else [],
        hashes=[] if is_python else hashes,
        external_references=[_files_on_pypi(component, hashes)] if is_python and hashes else [],
        properties=properties,
        components=[_component(part, inside=f"{reference}/") for part in component.parts],
    )


def _files_on_pypi(component: PackagedComponent, hashes: Sequence[HashType]) -> ExternalReference:
    return ExternalReference(
        type=ExternalReferenceType.DISTRIBUTION,
        url=XsUri(f"https://pypi.org/project/{component.name}/{component.version}/#files"),
        hashes=hashes,
    )


def licences_page(components: Iterable[PackagedComponent]) -> str:
    """Returns the list of licences as a Markdown table."""
    lines = [
        f"# Licences of {_NAME} {version(_NAME)} and its components",
        "",
        f"{_NAME} itself: {_LICENCE}. The licences of the jars inside of PySpark are in its folder `licenses`, and those of a "
        "Debian package in `/usr/share/doc`. The page of the tuner contains htmx (0BSD) and uPlot (MIT).",
        "",
        "| component | version | licence | kind |",
        "|---|---|---|---|",
    ]
    for component in components:
        kind = _KINDS.get(component.kind, "JVM")
        if component.used_for:
            kind += f": {', '.join(component.used_for)}"
        if component.condition:
            kind += f", if {component.condition}"
        name = f"{component.group}:{component.name}" if component.kind == JVM else component.name
        lines.append(f"| {name} | {component.version} | {component.licence or 'not named'} | {kind} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m dist_build.sbom DIR\n")
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    components = all_components()
    stem = f"{_NAME}-{version(_NAME)}"
    for name, text in (
        (f"{stem}.cdx.json", sbom_json(components, epoch_s())),
        (f"{stem}.licences.md", licences_page(components)),
    ):
        (folder / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"wrote {folder / name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
