"""The list of SHA-256 digests beside an Ivy file, and the comparison of a folder with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rheostat.errors import SetupError
from rheostat.jvm.digests import mismatch, read_digests, sha256_of, write_digests


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("kafka/a-1.jar", "spark/b-2.jar"):
        jar = tmp_path / "jars" / name
        jar.parent.mkdir(parents=True)
        jar.write_bytes(name.encode() * 100)
    return tmp_path / "jars"


@pytest.fixture
def ivy_xml(tmp_path: Path, folder: Path) -> Path:
    write_digests(tmp_path / "ivy.xml", folder)
    return tmp_path / "ivy.xml"


def test_digests_written_then_read_match_the_folder(folder: Path, ivy_xml: Path) -> None:
    digests = read_digests(ivy_xml)
    assert list(digests) == ["kafka/a-1.jar", "spark/b-2.jar"]
    assert mismatch(folder, digests) is None


def test_mismatch_same_size_and_time_names_both_digests(folder: Path, ivy_xml: Path) -> None:
    jar = folder / "spark" / "b-2.jar"
    before, digest = jar.stat(), sha256_of(jar)
    jar.write_bytes(b"x" + jar.read_bytes()[1:])
    os.utime(jar, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert mismatch(folder, read_digests(ivy_xml)) == (
        f"{jar} is damaged or was changed (SHA-256 expected {digest}, found {sha256_of(jar)})"
    )


def test_mismatch_missing_file_is_named(folder: Path, ivy_xml: Path) -> None:
    (folder / "kafka" / "a-1.jar").unlink()
    reason = mismatch(folder, read_digests(ivy_xml))
    assert reason is not None
    assert reason.startswith(f"{folder}/kafka/a-1.jar is missing or cannot be read (")


@pytest.mark.parametrize(
    "text", ["", "\n", "0123  kafka/a.jar\n", f"{'0' * 64}  ../a.jar\n", f"{'0' * 64}  kafka/a.jar\nmore\n"]
)
def test_read_digests_malformed_list_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "ivy.sha256").write_text(text)
    with pytest.raises(SetupError, match=r"ivy\.sha256 is not a list of SHA-256 digests: reinstall rheostat"):
        read_digests(tmp_path / "ivy.xml")


def test_read_digests_missing_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"ivy\.sha256 cannot be read"):
        read_digests(tmp_path / "ivy.xml")
