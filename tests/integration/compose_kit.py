"""Docker Compose with the project of a test, and its command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def compose_command() -> list[str]:
    """Returns the command of Docker Compose 2; skips where there is none."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) is not None:
            done = subprocess.run(
                [*command, "version", "--short"], capture_output=True, text=True, timeout=60, check=False
            )
            if done.returncode == 0 and int(done.stdout.lstrip("v").split(".")[0]) >= 2:
                return command
    pytest.skip("Docker Compose 2 is not installed")


class ComposeProject:
    """compose.yaml under a name of its own.

    Args:
        arguments: options of `docker compose` before its command, such as further files.
        environ: values of the variables in the files; no variable of this process reaches Compose.
    """

    def __init__(self, name: str, arguments: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> None:
        self._command = [*compose_command(), "--project-name", name, *arguments]
        self._environ = {**{n: os.environ[n] for n in ("PATH", "HOME") if n in os.environ}, **(environ or {})}

    def run(self, *arguments: str, timeout_s: float = 60.0, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*self._command, *arguments],
            cwd=ROOT, env=self._environ, capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip
        if check and done.returncode != 0:
            pytest.fail(f"docker compose {' '.join(arguments)}: {done.stderr[-4000:]}", pytrace=False)
        return done

    def services(self) -> set[str]:
        """Returns the services of the selected profile."""
        return set(self.run("config", "--services").stdout.split())

    def inside(self, service: str, *command: str) -> str | None:
        """Returns what a command prints in the container of a service; None if it fails."""
        done = self.run("exec", "-T", service, *command, check=False)
        return done.stdout if done.returncode == 0 else None

    def prometheus(self, path: str) -> Any:
        """Returns the data of an answer of Prometheus; None while it does not answer."""
        text = self.inside("prometheus", "wget", "-q", "-O", "-", f"http://127.0.0.1:9090/api/v1/{path}")
        return None if text is None else json.loads(text)["data"]

    def logs(self, *services: str) -> str:
        return self.run("logs", "--no-color", "--no-log-prefix", "--tail", "200", *services).stdout
