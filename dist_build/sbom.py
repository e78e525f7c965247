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

from dist_build.components import LOCK, PackagedComponent, jvm_components, python_components

_NAME = "rheostat"
_LICENCE = "Apache-2.0"
_EPOCH_S_DEFAULT = 1_580_601_600  # As hatchling gives to the files of a wheel.


def all_components() -> list[PackagedComponent]:
    """Returns the Python packages and the JVM artifacts of this version."""
    return [*python_components(LOCK.read_text(encoding="utf-8")), *jvm_components()]


def sbom_json(components: Iterable[PackagedComponent], epoch_s: int) -> str:
    """Returns the bill of materials.

    Args:
        epoch_s: the time in the bill, in seconds since 1970.

    Raises:
        ValueError: the bill does not fit CycloneDX's schema.
    """
    program = Component(
        name=_NAME,
        version=version(_NAME),
        type=ComponentType.APPLICATION,
        bom_ref=_NAME,
        licenses=[LicenseFactory().make_from_string(_LICENCE)],
    )
    bom = Bom(components=[_component(component) for component in components])
    bom.metadata.component = program
    bom.metadata.timestamp = datetime.fromtimestamp(epoch_s, UTC)
    bom.register_dependency(program, bom.components)
    content = " ".join(sorted(f"{c.purl} {len(c.hashes)}" for c in bom.components))
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, f"{_NAME} {program.version} {content}")
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    if (fault := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)) is not None:
        raise ValueError(f"the bill of materials does not fit the schema of CycloneDX 1.6: {fault}")
    return text + "\n"


def _component(component: PackagedComponent) -> Component:
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in component.digests]
    properties = [Property(name="rheostat:used-for", value=use) for use in component.used_for]
    if component.condition:
        properties.append(Property(name="rheostat:environment-marker", value=component.condition))
    url = PackageURL.from_string(component.package_url)
    return Component(
        name=component.name,
        version=component.version,
        group=component.group or None,
        type=ComponentType.LIBRARY,
        bom_ref=component.package_url,
        purl=url,
        licenses=[LicenseFactory().make_from_string(component.licence)],
        # A Python package has a file for each system, so the digests are those of its files, and not of the component.
        hashes=hashes if component.group else [],
        external_references=[] if component.group else [_files_on_pypi(component, hashes)],
        properties=properties,
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
        f"{_NAME} itself: {_LICENCE}. PySpark contains the jars of Apache Spark; their licences are in its folder `licenses`. The "
        "page of the tuner contains htmx (0BSD) and uPlot (MIT).",
        "",
        "| component | version | licence | kind |",
        "|---|---|---|---|",
    ]
    for component in components:
        kind = f"JVM: {', '.join(component.used_for)}" if component.group else "Python"
        if component.condition:
            kind += f", if {component.condition}"
        name = f"{component.group}:{component.name}" if component.group else component.name
        lines.append(f"| {name} | {component.version} | {component.licence} | {kind} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m dist_build.sbom DIR\n")
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    components = all_components()
    stem = f"{_NAME}-{version(_NAME)}"
    epoch_s = int(os.environ.get("SOURCE_DATE_EPOCH", _EPOCH_S_DEFAULT))
    for name, text in (
        (f"{stem}.cdx.json", sbom_json(components, epoch_s)),
        (f"{stem}.licences.md", licences_page(components)),
    ):
        (folder / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"wrote {folder / name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
