"""Renders the chart with Helm's own engine (the Go SDK, in the package helm-python-sdk).

The engine runs in a process of its own, because a Go library brings its own threads and signal handlers.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

_RENDER_S_MAX = 120
_SEPARATOR = re.compile(r"^---$", re.M)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """An installation of the chart.

    Attributes:
        values: what the user sets; the chart's defaults are added.
    """

    values: dict[str, Any] = field(default_factory=dict)
    name: str = "rheostat"
    namespace: str = "kafka-tools"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """The result of rendering a release with Helm.

    Attributes:
        files: text by template.
        error: why Helm refuses the values; empty: it accepts them.
    """

    files: dict[str, str]
    error: str

    def texts(self) -> list[str]:
        """Returns the YAML text of each object, in the order of the templates."""
        parts = [part for name, text in self.files.items() if name.endswith(".yaml") for part in _SEPARATOR.split(text)]
        return [part.strip() + "\n" for part in parts if load_yaml(part) is not None]

    def objects(self) -> list[dict[str, Any]]:
        return [load_yaml(text) for text in self.texts()]


# The fast loader where it is there: the dashboards are half a megabyte.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_yaml(text: str) -> Any:
    """Returns the value of a YAML text."""
    return yaml.load(text, Loader=_LOADER)


def load_yaml_documents(text: str) -> list[Any]:
    """Returns the value of each document in a YAML text."""
    return list(yaml.load_all(text, Loader=_LOADER))


def helm_is_here() -> bool:
    """Returns whether Helm's engine is installed. There are wheels for x86-64 only."""
    return importlib.util.find_spec("helm_python") is not None


def render(chart: Path, releases: Sequence[Release]) -> list[Rendering]:
    """Renders each release."""
    request = {"chart": str(chart), "releases": [asdict(release) for release in releases]}
    done = subprocess.run(
        [sys.executable, "-m", "deploy_build.helm"],
        input=json.dumps(request), capture_output=True, text=True, timeout=_RENDER_S_MAX, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"Helm's engine has ended with code {done.returncode}: {done.stderr[-2000:]}")
    return [Rendering(**one) for one in json.loads(done.stdout)]


def _render_here(request: dict[str, Any]) -> list[dict[str, Any]]:
    import helm_python

    results = []
    with helm_python.Chart.load(request["chart"]) as chart:
        for release in request["releases"]:
            try:
                chart.validate_schema(chart.merge_values(release["values"]))
                files = chart.render(release["values"], name=release["name"], namespace=release["namespace"])
                results.append({"files": dict(sorted(files.items())), "error": ""})
            except helm_python.HelmError as error:
                results.append({"files": {}, "error": str(error)})
    return results


if __name__ == "__main__":
    json.dump(_render_here(json.load(sys.stdin)), sys.stdout)
