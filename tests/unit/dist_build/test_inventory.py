"""The inventory names jars and packages by what they say about themselves."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dist_build import inventory
from dist_build.inventory import debian_licences, describe_jar, find_jars


def jar(path: Path, **entries: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in entries.items():
            archive.writestr(name, text)
    return path


def coordinates(group: str, name: str, version: str) -> str:
    return f"#comment\nversion={version}\ngroupId={group}\nartifactId={name}\n"


def test_jar_with_coordinates_is_named_by_them(tmp_path: Path) -> None:
    path = jar(
        tmp_path / "b-core-1.5.6-10.jar",
        **{
            "META-INF/maven/other/shaded/pom.properties": coordinates("other", "shaded", "9"),
            "META-INF/maven/org.b/b-core/pom.properties": coordinates("org.b", "b-core", "1.5.6-10"),
            "META-INF/MANIFEST.MF": "Bundle-License: https://www.apache.org/licen\r\n ses/LICENSE-2.0.txt\r\n",
        },
    )
    assert describe_jar(path) == {
        "name": "b-core", "version": "1.5.6-10", "group": "org.b", "licence": "Apache-2.0",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("file", "name", "version"),
    [
        ("breeze_2.13-2.1.0.jar", "breeze_2.13", "2.1.0"),
        ("zstd-jni-1.5.6-10.jar", "zstd-jni", "1.5.6-10"),
        ("spark-sql-kafka-0-10_2.13-4.2.0.jar", "spark-sql-kafka-0-10_2.13", "4.2.0"),
        ("noversion.jar", "noversion", ""),
    ],
)
def test_jar_without_coordinates_is_named_by_its_file(tmp_path: Path, file: str, name: str, version: str) -> None:
    found = describe_jar(jar(tmp_path / file, a="x"))
    assert (found["name"], found["version"], found["group"], found["licence"]) == (name, version, "", "")


def test_same_jar_in_two_folders_is_listed_once(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    first = jar(tmp_path / "one" / "a-1.jar", a="x")
    (tmp_path / "two" / "a-1.jar").write_bytes(first.read_bytes())
    assert [found["name"] for found in find_jars(tmp_path)] == ["a"]


def test_debian_copyright_file_gives_each_licence_once(tmp_path: Path) -> None:
    file = tmp_path / "copyright"
    file.write_text("Files: *\nLicense: GPL-2+\n\nFiles: x\nLicense:  MIT \n\nLicense: GPL-2+\n text\n")
    assert debian_licences(file) == "GPL-2+, MIT"
    assert debian_licences(tmp_path / "missing") == ""


def test_inventory_runs_with_the_standard_library_alone(tmp_path: Path) -> None:
    """As inside of the image: from stdin, isolated, with a dpkg-query in the path."""
    tool = tmp_path / "bin" / "dpkg-query"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\nprintf 'ii \\tbash\\t5.2\\tamd64\\nrc \\told\\t1\\tall\\n'\n")
    tool.chmod(0o755)
    package = tmp_path / "opt" / "lib" / "site-packages" / "p-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.4\nName: p\nVersion: 1.0\nLicense-Expression: MIT\n")
    done = subprocess.run(
        [sys.executable, "-IS", "-", str(tmp_path / "opt")], input=Path(inventory.__file__).read_bytes(),
        env={"PATH": f"{tool.parent}:/bin:/usr/bin"}, capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert [(p["name"], p["version"]) for p in found["debian"]] == [("bash", "5.2")]
    assert found["python"] == [{"name": "p", "version": "1.0", "licence": "MIT"}]
    assert found["jars"] == []
