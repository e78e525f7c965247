"""Renders those files of the Helm chart that have another source: its version, its schema, its rules and dashboards."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from deploy_build.values_schema import values_schema

ROOT = Path(__file__).parents[1]
CHART = Path("deploy") / "helm" / "rheostat"
_DASHBOARDS = ROOT / "dashboards"
_CHART_YAML = """\
# Made by `make format`: the version is that of pyproject.toml.
apiVersion: v2
name: rheostat
description: {description}
type: application
version: {version}
appVersion: "{version}"
kubeVersion: ">=1.27.0-0"
keywords: [kafka, throttle, reassignment, quota]
"""


def chart_files() -> dict[Path, str]:
    """Returns the text of each generated file, by its path in the repository."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    dashboards = sorted(_DASHBOARDS.glob("*.json"))
    return {
        CHART / "Chart.yaml": _CHART_YAML.format(description=project["description"], version=project["version"]),
        CHART / "values.schema.json": json.dumps(values_schema(), indent=1) + "\n",
        **{CHART / "files" / "rules" / rules.name: _text(rules) for rules in sorted(_DASHBOARDS.glob("rules/*.yaml"))},
        **{CHART / "files" / "dashboards" / board.name: _text(board) for board in dashboards},
        CHART / "files" / "dashboards" / "kustomization.yaml": _kustomization(dashboards),
    }


def _kustomization(dashboards: list[Path]) -> str:
    """Returns a kustomization that makes a ConfigMap of each dashboard, so that they need not be in the repository once more."""
    maps = [
        f"  - name: rheostat-{board.stem.removeprefix('rheostat-')}\n    files: [{board.name}]" for board in dashboards
    ]
    return "\n".join(
        [
            "# Made by `make format`. For kustomize only: the chart makes these ConfigMaps itself.",
            "apiVersion: kustomize.config.k8s.io/v1beta1",
            "kind: Kustomization",
            "configMapGenerator:",
            *maps,
            "generatorOptions:",
            "  disableNameSuffixHash: true",
            '  labels: {grafana_dashboard: "1"}',
            "",
        ]
    )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
