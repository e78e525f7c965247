"""Makes the kustomize base of deploy/kubernetes/ from the chart, with Helm's engine.

The objects are those of `helm template` with the values below. Three things differ: the settings are a file from which kustomize
makes the ConfigMap, since kustomize then replaces the pods when the settings change; no object claims that Helm manages it; and the
dashboards are files of the chart.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from deploy_build.chart import CHART
from deploy_build.helm import Release, Rendering, render

ROOT = Path(__file__).parents[1]
FOLDER = Path("deploy") / "kubernetes"
_NOTE = "# Made by `make format` from deploy/helm/rheostat.\n"
_MONITORING = {"ServiceMonitor", "PrometheusRule"}
VALUES: dict[str, Any] = {
    "config": {"kafka": {"bootstrap_servers": "my-cluster-kafka-bootstrap.kafka.svc:9092"}},
    "monitoring": {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}},
}
_BASE = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [rheostat.yaml]
configMapGenerator:
  - name: rheostat-config
    files: [rheostat.yaml=settings.yaml]
"""
_COMPONENT = """\
# Needs the Prometheus Operator. The dashboards are ConfigMaps for the sidecar of Grafana's chart.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
resources:
  - monitoring.yaml
  - ../../helm/rheostat/files/dashboards
"""


def kustomize_files() -> dict[Path, str]:
    """Returns the text of each generated file, by its path in the repository.

    Raises:
        RuntimeError: Helm refuses the values.
    """
    (rendering,) = render(ROOT / CHART, [Release(values=VALUES, namespace="default")])
    if rendering.error:
        raise RuntimeError(f"the kustomize base cannot be made: {rendering.error}")
    base, monitoring, settings = _split(rendering)
    return {
        FOLDER / "base" / "kustomization.yaml": _NOTE + _BASE,
        FOLDER / "base" / "rheostat.yaml": _NOTE + "---\n".join(base),
        FOLDER / "base" / "settings.yaml": _NOTE + settings,
        FOLDER / "monitoring" / "kustomization.yaml": _NOTE + _COMPONENT,
        FOLDER / "monitoring" / "monitoring.yaml": _NOTE + "---\n".join(monitoring),
    }


def _split(rendering: Rendering) -> tuple[list[str], list[str], str]:
    """Returns the texts of the objects of the base, those of the monitoring, and the settings file."""
    base, monitoring, settings = [], [], ""
    for text in rendering.texts():
        one = yaml.safe_load(text)
        if one["kind"] == "ConfigMap":
            settings = one["data"]["rheostat.yaml"]
            continue
        text = text.replace("app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/managed-by: kustomize")
        text = re.sub(r"\n +annotations:\n +#[^\n]+\n +rheostat/config-sha256: \w+", "", text)
        (monitoring if one["kind"] in _MONITORING else base).append(text)
    return base, monitoring, settings
