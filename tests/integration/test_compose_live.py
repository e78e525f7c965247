"""The demo of compose.yaml, brought up for real: Prometheus scrapes rheostat, the stalled move is rescued, and nothing is left.

Kafka, Prometheus and Alertmanager are stand-ins that are built here (compose_images/), with the paths and the start of the official
images; Grafana has none and is left out. The network has no way out, so a container that downloads something would fail.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from compose_kit import ROOT, ComposeProject
from docker.errors import DockerException, ImageNotFound
from lab_parts import until

IMAGES = Path(__file__).parent / "compose_images"
PROJECT = f"rheostat-test-{os.getpid()}"
BASE_IMAGE = "debian:bookworm-slim"
RHEOSTAT_IMAGE = "rheostat:test"
STAND_INS = {"KAFKA": "kafka", "PROMETHEUS": "monitoring", "ALERTMANAGER": "monitoring"}
MONITORS = {"prepare", "prometheus", "alertmanager", "grafana"}
KAFKA = {"controller", "kafka-1", "kafka-2", "kafka-3"}
UP_S_MAX, RESCUED_S_MAX, DOWN_S_MAX = 420.0, 420.0, 120.0


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
        yield {f"{name}_IMAGE": image for name, image in {"RHEOSTAT": RHEOSTAT_IMAGE, **made}.items()}
    finally:
        for tag in made.values():
            engine.images.remove(tag, force=True)


@pytest.fixture(scope="module")
def demo(engine: docker.DockerClient, images: dict[str, str]) -> Iterator[ComposeProject]:
    """The demo without Grafana. Afterwards nothing of it is left."""
    files = ("--file", str(ROOT / "compose.yaml"), "--file", str(IMAGES / "no-way-out.yaml"))
    project = ComposeProject(PROJECT, ("--profile", "demo", *files), images)
    try:
        services = sorted(project.services() - {"grafana"})
        project.run("up", "--detach", "--no-build", "--pull", "never", *services, timeout_s=UP_S_MAX)
        yield project
    except BaseException as error:
        error.add_note(project.run("ps", "--all", check=False).stdout)
        raise
    finally:
        project.run("down", "--volumes", "--timeout", "20", timeout_s=DOWN_S_MAX)
    label = {"label": f"com.docker.compose.project={PROJECT}"}
    assert engine.containers.list(all=True, filters=label) == []
    assert engine.networks.list(filters=label) == []
    assert engine.volumes.list(filters=label) == []


@pytest.mark.parametrize(
    ("arguments", "services"),
    [([], MONITORS | KAFKA | {"rheostat-demo", "operator"}), (["--profile", "monitoring"], MONITORS | {"rheostat"})],
    ids=["demo", "monitoring"],
)
def test_compose_selects_the_services_of_the_profile(arguments: list[str], services: set[str]) -> None:
    assert ComposeProject(PROJECT, arguments).services() == services


@pytest.mark.image
@pytest.mark.campaign
@pytest.mark.timeout(1800)
def test_demo_rescues_the_stalled_move_and_prometheus_sees_it(
    demo: ComposeProject, engine: docker.DockerClient
) -> None:
    began_s = time.monotonic()

    def logs_after(what: str) -> str:
        return f"{what}\n{demo.run('ps', '--all').stdout}\n{demo.logs()[-20_000:]}"

    def wait(probe: Any, timeout_s: float, what: str) -> Any:
        found = until(probe, timeout_s, lambda: logs_after(what), every_s=2.0)
        sys.stdout.write(f"{time.monotonic() - began_s:4.0f} s: {what}\n")
        return found

    def all_targets_up() -> bool:
        data = demo.prometheus("targets?state=active")
        health = {} if data is None else {t["labels"]["job"]: t["health"] for t in data["activeTargets"]}
        processes = ("tuner", "collector", "stream", "learn")
        return health == {f"rheostat-{process}": "up" for process in processes}

    wait(all_targets_up, UP_S_MAX, "Prometheus scrapes rheostat's four processes")
    rescued = 'query?query=sum(rheostat_decisions_total{action="set",reason=~"stalled.*"})>0'
    wait(
        lambda: (demo.prometheus(rescued) or {}).get("result"),
        RESCUED_S_MAX,
        "the tuner raises the throttle of the stalled move",
    )
    wait(lambda: "operator: the move has ended" in demo.logs("operator"), RESCUED_S_MAX, "the move has ended")
    rules = [rule for group in demo.prometheus("rules")["groups"] for rule in group["rules"]]
    assert rules
    assert {rule["health"] for rule in rules} == {"ok"}
    assert len(demo.prometheus("alertmanagers")["activeAlertmanagers"]) == 1

    containers = engine.containers.list(all=True, filters={"label": f"com.docker.compose.project={PROJECT}"})
    assert len(containers) == len(demo.services()) - 1  # Without Grafana.
    for container in containers:
        name, state = container.labels["com.docker.compose.service"], container.attrs["State"]
        assert (state["Status"], state["ExitCode"]) == (("exited", 0) if name == "prepare" else ("running", 0)), name
        assert container.attrs["RestartCount"] == 0, name
        assert state.get("Health", {}).get("Status", "healthy") == "healthy", name
        assert container.attrs["Config"]["User"] not in ("", "0", "root"), name
