"""Writes the components of a container image as a bill of materials (CycloneDX 1.6, JSON), and the list of their licences.

    python -m dist_build.image_sbom IMAGE DIR    write image.cdx.json and image.licences.md

The components are those of the wheel's bill of materials and the Debian packages, which the image itself lists.
"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from dist_build.sbom import all_components, licences_page, sbom_json

_RUN_S_MAX = 120
_NOT_NAMED = "named in the file copyright"
# Runs in the image. A package without a copyright file in the machine-readable format names no licence.
_LIST_PACKAGES = """
import json, re, subprocess
from pathlib import Path
form = "${Package}\\t${Version}\\t${Architecture}\\n"
packages = []
for line in subprocess.check_output(["dpkg-query", "--show", "--showformat", form], text=True).splitlines():
    name, version, architecture = line.split("\\t")
    file = Path("/usr/share/doc", name, "copyright")
    text = file.read_text(errors="replace") if file.exists() else ""
    packages.append([name, version, architecture, sorted(set(re.findall(r"^License: *(\\S.*?) *$", text, re.M)))])
print(json.dumps(packages))
"""


@dataclass(frozen=True, slots=True)
class DebianPackage:
    """A package of the image's distribution; ``licences`` is empty if its copyright file is only prose."""

    name: str
    version: str
    architecture: str
    licences: tuple[str, ...]

    @property
    def package_url(self) -> str:
        return f"pkg:deb/debian/{quote(self.name)}@{quote(self.version, safe='')}?arch={self.architecture}"


def debian_packages(image: str) -> list[DebianPackage]:
    """Returns the Debian packages of an image, by name."""
    command = ["docker", "run", "--rm", "--network", "none", "--entrypoint", "/usr/bin/python3", image, "-c"]
    listed = subprocess.run(
        [*command, _LIST_PACKAGES], stdout=subprocess.PIPE, text=True, timeout=_RUN_S_MAX, check=True
    )
    return [
        DebianPackage(name=name, version=version, architecture=architecture, licences=tuple(licences))
        for name, version, architecture, licences in json.loads(listed.stdout)
    ]


def image_sbom_json(wheel_sbom: str, packages: Sequence[DebianPackage]) -> str:
    """Returns the bill of materials of the wheel with the Debian packages added.

    Raises:
        ValueError: the bill does not fit CycloneDX's schema.
    """
    bom: dict[str, Any] = json.loads(wheel_sbom)
    bom["metadata"]["component"]["type"] = "container"
    for package in packages:
        component = {
            "type": "library",
            "bom-ref": package.package_url,
            "name": package.name,
            "version": package.version,
            "purl": package.package_url,
        }
        if package.licences:
            component["licenses"] = [{"license": {"name": name}} for name in package.licences]  # type: ignore[assignment]
        bom["components"].append(component)
        bom["dependencies"].append({"ref": package.package_url})
    content = " ".join(sorted(component["bom-ref"] for component in bom["components"]))
    bom["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}"
    text = json.dumps(bom, indent=1)
    if (fault := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)) is not None:
        raise ValueError(f"the bill of materials does not fit the schema of CycloneDX 1.6: {fault}")
    return text + "\n"


def image_licences_page(wheel_page: str, packages: Sequence[DebianPackage]) -> str:
    """Returns the list of licences of the wheel with the Debian packages added."""
    rows = (
        f"| {package.name} | {package.version} | {', '.join(package.licences) or _NOT_NAMED} | Debian |"
        for package in packages
    )
    note = "The image has the whole texts of the Debian packages' licences in `/usr/share/doc/PACKAGE/copyright`."
    return wheel_page + "\n".join(rows) + f"\n\n{note}\n"


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 2:
        sys.stderr.write("usage: python -m dist_build.image_sbom IMAGE DIR\n")
        return 2
    image, folder = arguments[0], Path(arguments[1])
    folder.mkdir(parents=True, exist_ok=True)
    components, packages = all_components(), debian_packages(image)
    for name, text in (
        ("image.cdx.json", image_sbom_json(sbom_json(components, 0), packages)),
        ("image.licences.md", image_licences_page(licences_page(components), packages)),
    ):
        (folder / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"wrote {folder / name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
