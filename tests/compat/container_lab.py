"""A lab whose nodes run in containers. Their image holds the jars of one version of Kafka, and Java from rheostat's own image."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from rheostat.config.resources import conf_file
from rheostat.jvm.artifacts import Artifacts
from rheostat.lab.cluster import Lab
from rheostat.lab.node import Node

REPOSITORY = Path(__file__).resolve().parents[2]
JAVA_IMAGE = "rheostat-java:test"
BUILD_S_MAX = 600.0
STOP_S_MAX = 30
KAFKA_FOLDER = Path("/opt/kafka")
DOCKERFILE = f"""FROM {JAVA_IMAGE}
COPY libs {KAFKA_FOLDER}/libs
COPY agent.jar {KAFKA_FOLDER}/agent.jar
"""
# The image of the container that removes leftovers is in a registry; the lab removes its containers itself.
testcontainers_config.ryuk_disabled = True


def build_image(version: str, artifacts: Artifacts) -> str:
    """Builds an image of Kafka from the jars, and returns its name."""
    name = f"rheostat-kafka:{version}"
    _docker_build("--target", "base", "--tag", JAVA_IMAGE, str(REPOSITORY))
    with tempfile.TemporaryDirectory(prefix="rheostat-image-") as context:
        libs = Path(context, "libs")
        libs.mkdir()
        for jar in artifacts.kafka_jars:
            shutil.copy(jar, libs)
        shutil.copy(artifacts.jmx_agent, Path(context, "agent.jar"))
        Path(context, "Dockerfile").write_text(DOCKERFILE)
        _docker_build("--tag", name, context)
    return name


def _docker_build(*arguments: str) -> None:
    done = subprocess.run(
        ["docker", "build", *arguments], capture_output=True, text=True, timeout=BUILD_S_MAX, check=False
    )
    assert done.returncode == 0, f"docker build {' '.join(arguments)}: {done.stderr[-2000:]}"


@dataclass(slots=True)
class ContainerNode(Node):
    image: str = ""
    container: DockerContainer | None = None

    def start(self, java: Path, artifacts: Artifacts) -> None:  # noqa: ARG002  # Java is in the image.
        """Runs the node's command in a container of the same network, with the node's folder at the same path."""
        inside = replace(artifacts, kafka_jars=(KAFKA_FOLDER / "libs" / "*",), jmx_agent=KAFKA_FOLDER / "agent.jar")
        conf = conf_file("collectors", "jmx-exporter.yaml").parents[1]
        self.container = (
            DockerContainer(self.image, network_mode="host", user=f"{os.getuid()}:{os.getgid()}")
            .with_volume_mapping(str(self.home), str(self.home), "rw")
            .with_volume_mapping(str(conf), str(conf), "ro")
            .with_command(self.command(Path("java"), inside))
        )
        self.container.start()

    def alive(self) -> bool:
        """Returns whether the container runs; if it does not, writes its output to the node's log."""
        if self.container is None:
            return False
        self.container.reload()
        is_running = self.container.status == "running"
        if not is_running:
            self.log.write_bytes(b"".join(self.container.get_logs()))
        return is_running

    def kill(self) -> None:
        if self.container is not None:
            self.container.stop(force=True)
            self.container = None

    def stop(self, grace_s: float) -> None:
        if self.container is not None:
            self.container.get_wrapped_container().stop(timeout=round(grace_s))


class ContainerLab(Lab):
    """A lab with each node in a container."""

    node_class = ContainerNode

    def _lay_out(self) -> None:
        super()._lay_out()
        assert self.spec.kafka is not None
        image = build_image(self.spec.kafka, self.node_artifacts)
        for node in self.nodes.values():
            assert isinstance(node, ContainerNode)
            node.image = image
