"""The bill of materials of the image: that of the wheel, and each Debian package once."""

from __future__ import annotations

import json

import pytest

from dist_build.image_sbom import DebianPackage, image_licences_page, image_sbom_json
from dist_build.sbom import all_components, licences_page, sbom_json

JAVA = DebianPackage(
    name="openjdk-17-jre-headless", version="17.0.20+8-1~deb12u1", architecture="amd64", licences=("GPL-2",)
)
PROSE = DebianPackage(name="libstdc++6", version="12.2.0-14", architecture="amd64", licences=())


@pytest.fixture(scope="module")
def wheel() -> str:
    return sbom_json(all_components(), 0)


def test_image_sbom_has_the_wheel_and_the_debian_packages(wheel: str) -> None:
    bom = json.loads(image_sbom_json(wheel, [JAVA, PROSE]))
    added = bom["components"][len(json.loads(wheel)["components"]) :]
    assert [component["purl"] for component in added] == [
        "pkg:deb/debian/openjdk-17-jre-headless@17.0.20%2B8-1~deb12u1?arch=amd64",
        "pkg:deb/debian/libstdc%2B%2B6@12.2.0-14?arch=amd64",
    ]
    assert added[0]["licenses"] == [{"license": {"name": "GPL-2"}}]
    assert "licenses" not in added[1]
    assert bom["metadata"]["component"]["type"] == "container"
    assert bom["serialNumber"] != json.loads(wheel)["serialNumber"]


def test_image_sbom_with_a_package_twice_is_refused(wheel: str) -> None:
    with pytest.raises(ValueError, match="schema"):
        image_sbom_json(wheel, [JAVA, JAVA])


def test_licence_list_has_a_row_for_each_debian_package() -> None:
    page = image_licences_page(licences_page(all_components()), [JAVA, PROSE])
    assert "| openjdk-17-jre-headless | 17.0.20+8-1~deb12u1 | GPL-2 | Debian |\n" in page
    assert "| libstdc++6 | 12.2.0-14 | named in the file copyright | Debian |\n" in page
