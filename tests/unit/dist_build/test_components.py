"""The list of components has each pinned package and artifact once, with its digest and licence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dist_build.components import (
    IVY,
    JVM_LICENCES,
    LOCK,
    image_components,
    installed_licence,
    jvm_components,
    python_components,
)
from rheostat.jvm.digests import read_digests

TWO = """\
# A comment with a==1.
one==1.0 ; sys_platform == 'win32' \\
    --hash=sha256:{a} \\
    --hash=sha256:{b}
Two_x==2.0.post1 \\
    --hash=sha256:{c}
""".format(a="a" * 64, b="b" * 64, c="c" * 64)


def test_lock_is_read_with_markers_and_digests() -> None:
    one, two = python_components(TWO, lambda name: f"licence of {name}")
    assert (one.name, one.version, one.condition) == ("one", "1.0", "sys_platform == 'win32'")
    assert one.digests == ("a" * 64, "b" * 64)
    assert (two.version, two.condition, two.licence) == ("2.0.post1", "", "licence of Two_x")
    assert two.package_url == "pkg:pypi/two-x@2.0.post1"


def test_package_without_digest_or_licence_is_refused() -> None:
    with pytest.raises(ValueError, match="one has no digest"):
        python_components("one==1.0\n", {"one": "MIT"}.get)
    with pytest.raises(ValueError, match="licence of one is not known"):
        python_components(TWO, {}.get)


def test_every_locked_package_has_a_licence() -> None:
    text = LOCK.read_text()
    components = python_components(text)
    assert len(components) == len(re.findall(r"^[a-z0-9]\S*==", text, re.M)) > 30
    assert {c.name: c.licence for c in components}["crc32c"] == "LGPL-2.1-or-later"


@pytest.mark.parametrize(
    ("name", "licence"),
    [("fastapi", "MIT"), ("jinja2", "BSD License"), ("scipy", "BSD License"), ("colorama", "BSD License")],
)
def test_licence_is_named_and_not_quoted(name: str, licence: str) -> None:
    assert installed_licence(name) == licence


def test_every_jvm_artifact_has_group_and_licence() -> None:
    components = jvm_components()
    assert {c.digests[0] for c in components} == set(read_digests(IVY).values())
    by_name = {c.name: c for c in components}
    assert by_name["kafka-tools-api"].package_url == "pkg:maven/org.apache.kafka/kafka-tools-api@4.2.0?type=jar"
    assert by_name["kafka-clients"].used_for == ("kafka", "spark")
    assert all(c.group and c.licence for c in components)


def test_pyspark_has_its_jars_as_parts() -> None:
    (pyspark,) = (c for c in python_components(LOCK.read_text()) if c.name == "pyspark")
    core = next(part for part in pyspark.parts if part.name == "spark-core_2.13")
    assert core.package_url == f"pkg:maven/org.apache.spark/spark-core_2.13@{pyspark.version}?type=jar"
    assert len(pyspark.parts) > 250
    assert all(part.digests and part.name for part in pyspark.parts)


def test_image_has_packages_of_all_kinds_and_knows_its_artifacts() -> None:
    (known, *_) = jvm_components()
    jar = {"name": "n", "version": "", "group": "", "licence": "", "sha256": known.digests[0]}
    debian, python, artifact, other = image_components(
        {
            "debian": [{"name": "bash", "version": "5.2+b1", "architecture": "amd64", "licence": "GPL-3+"}],
            "python": [{"name": "rich", "version": "15.0.0", "licence": "MIT"}],
            "jars": [jar, jar | {"sha256": "f" * 64}],
        },
        [known],
    )
    assert debian.package_url == "pkg:deb/debian/bash@5.2%2Bb1?arch=amd64"
    assert python.package_url == "pkg:pypi/rich@15.0.0"
    assert artifact == known
    assert other.package_url == "pkg:generic/n"


def test_artifact_without_row_and_row_without_artifact_are_refused(tmp_path: Path) -> None:
    rows = JVM_LICENCES.read_text().splitlines()
    table = tmp_path / "licences.csv"
    table.write_text("\n".join(row for row in rows if not row.startswith("ecj,")))
    with pytest.raises(ValueError, match=r"ecj-.*jar has no row"):
        jvm_components(licences=table)
    table.write_text("\n".join([*rows, "gone,org.example,MIT"]))
    with pytest.raises(ValueError, match="rows without an artifact: gone"):
        jvm_components(licences=table)
