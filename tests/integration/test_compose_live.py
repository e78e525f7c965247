"""The demo of compose.yaml, brought up for real: Prometheus scrapes rheostat, the stalled move is rescued, and nothing is left.

Kafka, Prometheus and Alertmanager are stand-ins that are built here (compose_images/), with the paths and the start of the official
images; Grafana has none and is left out. The network has no way out, so a container that downloads something would fail.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import docker
import pytest
import yaml
from docker.errors import DockerException, ImageNotFound

ROOT = Path(__file__).parents[2]
IMAGES = Path(__file__).parent / "compose_images"
PROJECT = f"rheostat-test-{os.getpid()}"
BASE_IMAGE = "debian:bookworm-slim"
RHEOSTAT_IMAGE = "rheostat:test"
STAND_INS = {"KAFKA": "kafka", "PROMETHEUS": "monitoring", "ALERTMANAGER": "monitoring"}
LEFT_OUT = {"grafana"}
UP_S_MAX, RESCUED_S_MAX, DOWN_S_MAX = 420.0, 420.0, 120.0

pytestmark = [pytest.mark.image, pytest.mark.campaign, pytest.mark.timeout(1800)]

T = TypeVar("T")


class Demo:
    """The project of the test, with the images of the test."""

    def __init__(self, compose: list[str], images: dict[str, str]) -> None:
        files = ["-f", str(ROOT / "compose.yaml"), "-f", str(IMAGES / "no-way-out.yaml")]
        self._command = [*compose, "-p", PROJECT, "--profile", "demo", *files]
        names = {f"{name}_IMAGE": image for name, image in images.items()}
        self._environ = {**{n: os.environ[n] for n in ("PATH", "HOME") if n in os.environ}, **names}

    def compose(self, *arguments: str, timeout_s: float = 60.0, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*self._command, *arguments],
            cwd=ROOT, env=self._environ, capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip
        if check and done.returncode != 0:
            pytest.fail(f"docker compose {' '.join(arguments)}: {done.stderr[-4000:]}", pytrace=False)
        return done

    def inside(self, service: str, *command: str) -> str | None:
        """Returns what a command prints in the container of a service; None if it fails."""
        done = self.compose("exec", "-T", service, *command, check=False)
        return done.stdout if done.returncode == 0 else None

    def prometheus(self, path: str) -> Any:
        """Returns the data of an answer of Prometheus; None while it does not answer."""
        text = self.inside("prometheus", "wget", "-q", "-O", "-", f"http://127.0.0.1:9090/api/v1/{path}")
        return None if text is None else json.loads(text)["data"]

    def logs(self, *services: str) -> str:
        return self.compose("logs", "--no-color", "--no-log-prefix", "--tail", "200", *services).stdout


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    try:
        client = docker.from_env(timeout=600)
        client.ping()
    except DockerException as error:
        pytest.skip(f"no Docker engine answers ({str(error)[:120]}); on Debian as root: ci/docker-engine.sh")
    yield client
    client.close()


@pytest.fixture(scope="module")
def images(engine: docker.DockerClient) -> Iterator[dict[str, str]]:
    """The image of each variable of compose.yaml. The stand-ins are removed afterwards; rheostat's layers stay as a cache."""
    try:
        engine.images.get(BASE_IMAGE)
    except ImageNotFound:
        pytest.skip(f"{BASE_IMAGE} is not here; see ci/base-image.sh")
    engine.images.build(path=str(ROOT), tag=RHEOSTAT_IMAGE, forcerm=True)
    made = {name: f"{PROJECT}-{name.lower()}" for name in STAND_INS}
    try:
        for name, tag in made.items():
            target = None if name == "KAFKA" else name.lower()
            engine.images.build(path=str(IMAGES / STAND_INS[name]), tag=tag, target=target, forcerm=True)
        yield {"RHEOSTAT": RHEOSTAT_IMAGE, **made}
    finally:
        for tag in made.values():
            engine.images.remove(tag, force=True)


@pytest.fixture(scope="module")
def demo(engine: docker.DockerClient, images: dict[str, str]) -> Iterator[Demo]:
    """The demo, up and ready. Afterwards nothing of it is left."""
    project = Demo(compose_command(), images)
    services = set(project.compose("config", "--services").stdout.split()) - LEFT_OUT
    try:
        project.compose("up", "--detach", "--no-build", "--pull", "never", *sorted(services), timeout_s=UP_S_MAX, check=False)
        yield project
    except BaseException as error:
        error.add_note(project.compose("ps", "--all", check=False).stdout)
        raise
    finally:
        project.compose("down", "--volumes", "--timeout", "20", timeout_s=DOWN_S_MAX)
    label = {"label": f"com.docker.compose.project={PROJECT}"}
    assert engine.containers.list(all=True, filters=label) == []
    assert engine.networks.list(filters=label) == []
    assert engine.volumes.list(filters=label) == []


def test_demo_rescues_the_stalled_move_and_prometheus_sees_it(demo: Demo) -> None:
    began_s = time.monotonic()

    def all_targets_up() -> bool:
        data = demo.prometheus("targets?state=active")
        health = {} if data is None else {t["labels"]["job"]: t["health"] for t in data["activeTargets"]}
        return health == dict.fromkeys(
            ("rheostat-tuner", "rheostat-collector", "rheostat-stream", "rheostat-learn"), "up"
        )

    until(all_targets_up, UP_S_MAX, "Prometheus scrapes rheostat's four processes", demo)
    print(f"four targets up after {time.monotonic() - began_s:.0f} s")

    decisions: dict[tuple[int, str], dict[str, Any]] = {}

    def is_rescued() -> bool:
        status = tuner_status(demo)
        for decision in (status or {}).get("last_decisions", []):
            decisions[decision["at_ms"], decision["text"]] = decision
        return any(d["action"] == "set" and d["reason"].startswith("stalled") for d in decisions.values())

    until(is_rescued, RESCUED_S_MAX, "the tuner raises the throttle of the stalled move", demo)
    print(f"rescued after {time.monotonic() - began_s:.0f} s")
    until(lambda: "operator: the move has ended" in demo.logs("operator"), RESCUED_S_MAX, "the move ends", demo)
    print(f"the move has ended after {time.monotonic() - began_s:.0f} s")
    written = until(
        lambda: demo.prometheus("query?query=sum(rheostat_throttle_writes_total)")["result"], 60, "the writes are counted", demo
    )
    assert float(written[0]["value"][1]) >= 1
    rules = demo.prometheus("rules")["groups"]
    assert {rule["health"] for group in rules for rule in group["rules"]} <= {"ok", "unknown"}
    assert len(demo.prometheus("alertmanagers")["activeAlertmanagers"]) == 1


def test_every_container_of_the_demo_is_healthy_and_unprivileged(demo: Demo, engine: docker.DockerClient) -> None:
    containers = engine.containers.list(all=True, filters={"label": f"com.docker.compose.project={PROJECT}"})
    assert len(containers) == len(yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]) - 1 - len(LEFT_OUT)
    for container in containers:
        name, state = container.labels["com.docker.compose.service"], container.attrs["State"]
        assert (state["Status"], state["ExitCode"]) == (("exited", 0) if name == "prepare" else ("running", 0)), name
        assert container.attrs["RestartCount"] == 0, name
        assert state.get("Health", {}).get("Status", "healthy") == "healthy", name
        assert container.attrs["Config"]["User"] not in ("", "0", "root"), name


def compose_command() -> list[str]:
    """Returns the command of Docker Compose 2; skips where there is none."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) is not None:
            done = subprocess.run([*command, "version", "--short"], capture_output=True, text=True, timeout=60, check=False)
            if done.returncode == 0 and int(done.stdout.lstrip("v").split(".")[0]) >= 2:
                return command
    pytest.skip("Docker Compose 2 is not installed")


def tuner_status(demo: Demo) -> dict[str, Any] | None:
    """Returns the answer of the tuner's API; None while it does not answer."""
    code = (
        "import urllib.request as u; token = open('/opt/prepared/read-token').read().strip();"
        "request = u.Request('http://127.0.0.1:9464/api/v1/status', headers={'authorization': 'Bearer ' + token});"
        "print(u.urlopen(request, timeout=5).read().decode())"
    )
    text = demo.inside("rheostat-demo", "python", "-c", code)
    return None if text is None else json.loads(text)


def until(probe: Callable[[], T], timeout_s: float, what: str, demo: Demo) -> T:
    """Waits for the first true result of ``probe`` and returns it; fails with the logs after the timeout."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > deadline_s:
            pytest.fail(f"not within {timeout_s:.0f} s: {what}\n{demo.logs()[-20_000:]}", pytrace=False)
        time.sleep(2.0)
