"""Writes the components of a container image as a bill of materials (CycloneDX 1.6, JSON), and the list of their licences.

    python -m dist_build.image_sbom IMAGE DIR    write image.cdx.json and image.licences.md

The components are what dist_build/inventory.py finds inside of the image, since the image leaves out jars that PySpark has.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from dist_build.components import PackagedComponent, image_components, jvm_components
from dist_build.sbom import epoch_s, licences_page, sbom_json

_INVENTORY = Path(__file__).with_name("inventory.py")
_INVENTORY_S_MAX = 300


def components_of_image(image: str) -> list[PackagedComponent]:
    """Returns what is installed in a container image. The image needs Python, and its container no network.

    Raises:
        subprocess.CalledProcessError: Docker or the inventory failed; its message is on stderr.
    """
    run = ["docker", "run", "--rm", "--interactive", "--network", "none", "--entrypoint", "/usr/bin/python3"]
    done = subprocess.run(
        [*run, image, "-", "/opt"],
        input=_INVENTORY.read_bytes(),
        stdout=subprocess.PIPE,
        timeout=_INVENTORY_S_MAX,
        check=True,
    )
    return image_components(json.loads(done.stdout), jvm_components())


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 2:
        sys.stderr.write("usage: python -m dist_build.image_sbom IMAGE DIR\n")
        return 2
    image, folder = arguments[0], Path(arguments[1])
    folder.mkdir(parents=True, exist_ok=True)
    components = components_of_image(image)
    for name, text in (
        ("image.cdx.json", sbom_json(components, epoch_s(), is_image=True)),
        ("image.licences.md", licences_page(components)),
    ):
        (folder / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"wrote {folder / name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
