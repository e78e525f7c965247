"""The bill of materials: valid, complete, and the same bytes for the same source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dist_build.components import PackagedComponent
from dist_build.sbom import all_components, licences_page, main, sbom_json


@pytest.fixture(scope="module")
def components() -> list[PackagedComponent]:
    return all_components()


def test_bill_has_every_component(components: list[PackagedComponent]) -> None:
    bill = json.loads(sbom_json(components, 0))  # Which raises if the schema is broken.
    assert {c["purl"] for c in bill["components"]} == {c.package_url for c in components}
    assert bill["metadata"]["component"]["name"] == "rheostat"
    (root,) = (d for d in bill["dependencies"] if d["ref"] == "rheostat")
    assert len(root["dependsOn"]) == len(components)
    references = [c["bom-ref"] for c in bill["components"]]
    references += [part["bom-ref"] for c in bill["components"] for part in c.get("components", ())]
    assert len(references) == len(set(references)) > 300


def test_bill_has_the_digests_of_the_lock_and_of_the_jars() -> None:
    package = PackagedComponent(kind="pypi", name="p", version="1", licence="MIT", digests=("a" * 64, "b" * 64))
    jar = PackagedComponent(
        kind="maven", name="j", version="2", licence="MIT", digests=("c" * 64,), group="g", used_for=("kafka",)
    )
    jar_entry, package_entry = json.loads(sbom_json([package, jar], 0))["components"]
    assert [h["content"] for h in jar_entry["hashes"]] == ["c" * 64]
    (files,) = package_entry["externalReferences"]
    assert [h["content"] for h in files["hashes"]] == ["a" * 64, "b" * 64]


def test_same_source_gives_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, components: list[PackagedComponent]
) -> None:
    monkeypatch.setattr("dist_build.sbom.all_components", lambda: components[:5])
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    for folder in ("one", "two"):
        assert main([str(tmp_path / folder)]) == 0
    one, two = ({p.name: p.read_bytes() for p in (tmp_path / folder).iterdir()} for folder in ("one", "two"))
    assert one == two
    assert sorted(one) == ["rheostat-0.2.0.cdx.json", "rheostat-0.2.0.licences.md"]
    assert b'"timestamp": "2023-11-14T22:13:20+00:00"' in one["rheostat-0.2.0.cdx.json"]


def test_page_of_licences_has_a_row_for_each_component(components: list[PackagedComponent]) -> None:
    rows = [line for line in licences_page(components).splitlines() if line.startswith("| ")]
    assert len(rows) == len(components) + 1
    assert "| org.eclipse.jdt:ecj | 3.38.0 | EPL-2.0 | JVM: compiler |" in rows


def test_bill_that_breaks_the_schema_is_refused() -> None:
    wrong = PackagedComponent(kind="maven", name="p", version="1", licence="MIT", digests=("no digest",), group="g")
    with pytest.raises(ValueError, match="does not fit the schema"):
        sbom_json([wrong], 0)


def test_missing_folder_is_a_wrong_call() -> None:
    assert main([]) == 2
