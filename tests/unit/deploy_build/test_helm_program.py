"""The program `helm`, of version 3 or 4: it renders the same objects as the engine that the other tests use, and refuses the same values.

The program is the one that RHEOSTAT_HELM names, or `helm` on the PATH.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from chart_kit import CHART, KAFKA, merged, releases

from deploy_build.helm import Release, helm_is_here, load_yaml_documents, render

HELM = shutil.which(os.environ.get("RHEOSTAT_HELM", "helm"))
# A program that is built by `go install` takes Kubernetes 1.20 for its default, which the chart refuses.
KUBERNETES = "1.37.0"

pytestmark = [
    pytest.mark.skipif(HELM is None, reason="needs the program helm: put it on the PATH, or name it in RHEOSTAT_HELM"),
    pytest.mark.skipif(not helm_is_here(), reason="Helm's engine has no wheel for this machine"),
]

RELEASES = releases()


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    assert HELM is not None
    return subprocess.run([HELM, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


def template(release: Release, folder: Path) -> subprocess.CompletedProcess[str]:
    values = folder / "values.yaml"
    values.write_text(yaml.safe_dump(release.values))
    place = ("--namespace", release.namespace, "--kube-version", KUBERNETES)
    return helm("template", release.name, CHART, *place, "--values", values)


@pytest.fixture(scope="module")
def objects_by_release() -> dict[str, list[str]]:
    """The objects as Helm's engine renders them."""
    renderings = render(CHART, list(RELEASES.values()))
    return {name: sorted(map(yaml.safe_dump, one.objects())) for name, one in zip(RELEASES, renderings, strict=True)}


@pytest.mark.parametrize("name", RELEASES)
def test_program_renders_the_same_objects(name: str, objects_by_release: dict[str, list[str]], tmp_path: Path) -> None:
    done = template(RELEASES[name], tmp_path)
    assert done.returncode == 0, done.stderr
    objects = (yaml.safe_dump(one) for one in load_yaml_documents(done.stdout) if one is not None)
    assert sorted(objects) == objects_by_release[name]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "at '/config/kafka/bootstrap_servers': minLength"),
        (merged(KAFKA, {"tune": {"replicas": "two"}}), "at '/tune/replicas': got string, want integer"),
        (merged(KAFKA, {"tune": {"replica": 2}}), "at '/tune': additional properties 'replica' not allowed"),
        (merged(KAFKA, {"config": {"kafka": {"sasl_password": "geheim"}}}), "additional properties 'sasl_password'"),
        (merged(KAFKA, {"config": {"stream": {"master": "spark://s:7077"}}}), "the chart runs Spark inside the stream's pod"),
    ],
    ids=["no-address", "wrong-type", "unknown-key", "secret", "spark-master"],
)  # fmt: skip
def test_program_refuses_a_wrong_value(values: dict[str, Any], message: str, tmp_path: Path) -> None:
    done = template(Release(values=values), tmp_path)
    assert done.returncode != 0
    assert message in done.stderr
    assert "geheim" not in done.stdout + done.stderr


def test_program_lints_the_chart(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(KAFKA))
    done = helm("lint", "--strict", CHART, "--values", values)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout + done.stderr


def test_program_packages_the_chart(tmp_path: Path) -> None:
    """An archive of the chart has every file that it needs."""
    packed = helm("package", CHART, "--destination", tmp_path)
    assert packed.returncode == 0, packed.stderr
    (archive,) = tmp_path.glob("rheostat-*.tgz")
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(KAFKA))
    done = helm("template", "rheostat", archive, "--kube-version", KUBERNETES, "--values", values)
    assert done.returncode == 0, done.stderr
    assert done.stdout == helm("template", "rheostat", CHART, "--kube-version", KUBERNETES, "--values", values).stdout
