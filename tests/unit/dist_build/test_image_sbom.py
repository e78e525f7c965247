"""The bill of materials of the image: what the inventory inside of it has found."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dist_build.image_sbom import components_of_image, main
from dist_build.inventory import inventory

FOUND = {
    "debian": [
        {
            "name": "openjdk-17-jre-headless",
            "version": "17.0.20+8-1~deb12u1",
            "architecture": "amd64",
            "licence": "GPL-2",
        },
        {"name": "libstdc++6", "version": "12.2.0-14", "architecture": "amd64", "licence": ""},
    ],
    "python": [{"name": "rich", "version": "15.0.0", "licence": "MIT"}],
    "jars": [{"name": "a", "version": "1", "group": "org.a", "licence": "", "sha256": "a" * 64}],
}


@pytest.fixture(autouse=True)
def docker_run(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Answers `docker run` with an inventory; the real one is in tests/integration/test_image.py."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, json.dumps(FOUND).encode())

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_inventory_has_the_three_kinds_of_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dist_build.inventory.find_debian_packages", lambda: iter(()))
    assert inventory([]).keys() == FOUND.keys()


def test_bill_of_image_has_all_packages(tmp_path: Path, docker_run: list[list[str]]) -> None:
    assert main(["rheostat:test", str(tmp_path)]) == 0
    bill = json.loads((tmp_path / "image.cdx.json").read_text())
    assert bill["metadata"]["component"]["type"] == "container"
    assert sorted(component["purl"] for component in bill["components"]) == [
        "pkg:deb/debian/libstdc%2B%2B6@12.2.0-14?arch=amd64",
        "pkg:deb/debian/openjdk-17-jre-headless@17.0.20%2B8-1~deb12u1?arch=amd64",
        "pkg:maven/org.a/a@1?type=jar",
        "pkg:pypi/rich@15.0.0",
    ]
    assert docker_run[0][-3:] == ["rheostat:test", "-", "/opt"]
    page = (tmp_path / "image.licences.md").read_text()
    assert "| openjdk-17-jre-headless | 17.0.20+8-1~deb12u1 | GPL-2 | Debian |\n" in page
    assert "| libstdc++6 | 12.2.0-14 | not named | Debian |\n" in page


def test_components_of_image_keep_their_architecture() -> None:
    assert {c.architecture for c in components_of_image("rheostat:test") if c.kind == "deb"} == {"amd64"}


def test_wrong_call_says_how_to_call() -> None:
    assert main(["rheostat:test"]) == 2
