"""The container image as an operator runs it: an unprivileged user, a read-only root, no downloads, a clean end.

With DOCKER_HOST set to the socket of `podman system service`, the same tests run with podman.

The image is built with the classic builder that testcontainers uses, so it needs no newer feature. Nothing is removed after a
build, because its layers are the cache of the next one.
"""

from __future__ import annotations

import ipaddress
import itertools
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import docker
import psutil
import pytest
import yaml
from docker.errors import APIError, BuildError, DockerException, ImageNotFound
from testcontainers.core.container import DockerContainer
from testcontainers.core.image import DockerImage
from testcontainers.core.labels import LABEL_SESSION_ID, SESSION_ID

from dist_build.components import DEBIAN, JVM, LOCK, PYTHON, python_components
from dist_build.image_sbom import components_of_image
from rheostat.config.resources import conf_file
from rheostat.config.settings import load_settings
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.node import free_ports

ROOT = Path(__file__).resolve().parents[2]
BASE_IMAGE = "debian:bookworm-slim"
INSTALL_MANUAL = ROOT / "docs" / "how-to" / "install.md"
TAG = "rheostat:test"
UID = 10001
CONFIG = "/etc/rheostat/rheostat.yaml"
STATE = "/var/lib/rheostat"
# As docker's command line says what ``hardened`` says to its API.
MANUAL_HARDENING = {
    "--tmpfs": "/tmp", "--cap-drop": "ALL", "--security-opt": "no-new-privileges", "--pids-limit": "512", "--memory": "3g",
}  # fmt: skip
TOKEN = "f" * 24
SIZE_BYTES_MAX = 900_000_000
READY_S_MAX = 300
# benchmarks/image.py measures against the bound itself, 5 s. A busy machine may take longer.
TUNE_S_MAX = 120
STOP_S_MAX = 45

# A first build downloads PySpark and the JVM artifacts.
pytestmark = [pytest.mark.image, pytest.mark.timeout(1200)]

T = TypeVar("T")


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    # The container that testcontainers would start to clean up after us is one more image to pull; `with` does it here.
    os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
    try:
        client = docker.from_env()
        client.ping()
    except DockerException as error:
        pytest.skip(f"no Docker engine answers ({str(error)[:120]}); on Debian as root: ci/docker-engine.sh")
    yield client
    client.close()


@pytest.fixture(scope="module")
def image(engine: docker.DockerClient) -> str:
    """The image of this source tree; an unchanged tree is built in well under a second."""
    try:
        engine.images.get(BASE_IMAGE)
    except ImageNotFound:
        try:
            engine.images.pull(BASE_IMAGE)
        except APIError as error:
            pytest.skip(f"{BASE_IMAGE} is not here and cannot be pulled ({str(error)[:120]}); see ci/base-image.sh")
    try:
        DockerImage(path=ROOT, tag=TAG, clean_up=False, forcerm=True).build()
    except BuildError as error:
        said = "".join(str(line.get("stream", line.get("error", ""))) for line in error.build_log)
        pytest.fail(f"the image does not build: {error}\n{said[-8000:]}", pytrace=False)
    return TAG


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(LabSpec(brokers=1)) as running:
        yield running


@pytest.fixture
def config_dir(lab: Lab, tmp_path: Path) -> Path:
    config = {
        "cluster": "lab",
        "kafka": {"bootstrap_servers": lab.bootstrap_servers},
        "collector": {"endpoints": lab.jmx_urls()},
        "stream": {"checkpoint_dir": f"{STATE}/checkpoint"},
        "tuner": {"dry_run": False, "rate_bytes_per_s_max": 50_000_000},
    }
    (tmp_path / "rheostat.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    tmp_path.chmod(0o755)  # pytest makes it for its own user alone; the container's is another one.
    return tmp_path


def test_image_contains_the_jvm_artifacts(engine: docker.DockerClient, image: str) -> None:
    code = (
        "from rheostat.jvm.artifacts import artifacts_present; from rheostat.jvm.java import find_java;"
        "print(artifacts_present(), find_java().major)"
    )
    container = hardened(image, network="none", entrypoint="python").with_command(["-c", code])

    with kept_logs(container):
        assert container.wait() == 0
        assert container.get_logs()[0].decode().split() == ["True", "17"]

    assert_nothing_left(engine)


def test_bill_of_materials_lists_what_the_image_contains(image: str) -> None:
    components = components_of_image(image)
    by_kind = {kind: {c.name: c for c in components if c.kind == kind} for kind in (DEBIAN, PYTHON, JVM)}
    assert {"python3", "openjdk-17-jre-headless"} <= by_kind[DEBIAN].keys()
    locked = {c.name: c.version for c in python_components(LOCK.read_text()) if not c.condition}
    assert locked.items() <= {name.lower().replace("_", "-"): c.version for name, c in by_kind[PYTHON].items()}.items()
    assert {"kafka-clients", "ecj", "spark-core_2.13"} <= by_kind[JVM].keys()
    assert "spark-mllib_2.13" not in by_kind[JVM], "the Dockerfile leaves it out"


def test_image_is_small(engine: docker.DockerClient, image: str) -> None:
    if is_podman(engine):
        pytest.skip("podman adds the sizes of the layers' archives, which are larger than their files")
    assert engine.images.get(image).attrs["Size"] <= SIZE_BYTES_MAX


@pytest.mark.parametrize(
    "command",
    [
        ["--version"],
        ["config", "check", "--config", "/etc/rheostat/shipped.yaml"],
        ["config", "check", "--config", "/etc/rheostat/demo.yaml"],
        ["simulate", "broker-add"],
        ["limits", "policy", "export", "/tmp/policy"],
    ],
    ids=" ".join,
)
def test_command_needs_no_network(image: str, tmp_path: Path, command: list[str]) -> None:
    tmp_path.chmod(0o755)
    shutil.copy(conf_file("rheostat.yaml"), tmp_path / "shipped.yaml")
    shutil.copy(ROOT / "deploy" / "compose" / "demo.yaml", tmp_path)
    container = hardened(image, network="none").with_command(command)
    container.with_volume_mapping(str(tmp_path), "/etc/rheostat", "ro")
    assert run_to_end(container)[0] == 0


def test_spark_starts_without_network(image: str) -> None:
    """The kernel and the connector are in the image, and none of the jars that were left out is missed."""
    code = (
        "from pathlib import Path; from rheostat.jvm.kernel import stream_jars;"
        "from streaming.session import SparkOptions, spark_session;"
        "spark = spark_session(stream_jars(), SparkOptions(app_name='test', local_dir=Path('/tmp/spark'), cores=1));"
        "print('rows:', spark.range(10).selectExpr('id % 3 AS k').groupBy('k').count().count())"
    )
    container = hardened(image, network="none", entrypoint="python").with_command(["-c", code])
    code, said = run_to_end(container)
    assert code == 0, said
    assert "rows: 3" in said


def test_tune_shows_its_first_cycle_soon_and_has_no_rights(image: str, config_dir: Path) -> None:
    (port,) = free_ports(1)
    container = hardened(image, network="host").with_command(["tune", "--config", CONFIG])
    container.with_env("RHEOSTAT_TUNER__HTTP__PORT", str(port))
    container.with_volume_mapping(str(config_dir), str(Path(CONFIG).parent), "ro")
    with kept_logs(container):
        until(lambda: has_read_cluster(port), TUNE_S_MAX, "/status shows the first cycle")
        status = container.exec(["grep", "-E", "^(Cap(Eff|Prm|Bnd)|NoNewPrivs):", "/proc/1/status"]).output.decode()
        assert {line.split()[1].lstrip("0") for line in status.splitlines()} == {"", "1"}, status


def test_run_in_container_becomes_ready_and_ends_cleanly(
    engine: docker.DockerClient, image: str, config_dir: Path
) -> None:
    ports = dict(zip(("TUNER", "COLLECTOR", "STREAM"), free_ports(3), strict=True))
    port = ports["TUNER"]
    # The lab listens, and advertises itself, on this machine's loopback only.
    container = hardened(image, network="host").with_command(["run", "--config", CONFIG])
    for part, its_port in ports.items():
        container.with_env(f"RHEOSTAT_{part}__HTTP__PORT", str(its_port))
        container.with_env(f"RHEOSTAT_{part}__HTTP__HOST", "0.0.0.0")
        container.with_env(f"RHEOSTAT_{part}__HTTP__READ_TOKEN", TOKEN)
    container.with_volume_mapping(str(config_dir), str(Path(CONFIG).parent), "ro")

    with kept_logs(container):
        wrapped = container.get_wrapped_container()

        def status() -> str:
            wrapped.reload()
            return str(wrapped.status)

        def ready() -> bool:
            assert status() == "running", "it ended before it was ready"
            return http_status(f"http://127.0.0.1:{port}/readyz") == 200

        def healthy() -> bool:
            if is_podman(engine):  # There it is systemd that runs the check of a container.
                return bool(container.exec(wrapped.attrs["Config"]["Healthcheck"]["Test"][1:]).exit_code == 0)
            wrapped.reload()
            return bool(wrapped.attrs["State"]["Health"]["Status"] == "healthy")

        until(ready, READY_S_MAX, "/readyz answers 200")
        until(healthy, 90, "the image's own health check passes")

        # From an address that is not loopback, as Prometheus elsewhere has one.
        addresses = (address for interface in psutil.net_if_addrs().values() for address in interface)
        outside = next(
            one.address
            for one in addresses
            if one.family == socket.AF_INET and not ipaddress.ip_address(one.address).is_loopback
        )
        for part, its_port in ports.items():
            metrics = f"http://{outside}:{its_port}/metrics"
            assert until(lambda url=metrics: http_status(url), 30, f"{part} answers") == 401, part
            assert until(lambda url=metrics: http_status(url, TOKEN), 30, f"{part} answers") == 200, part

        uids = container.exec(["grep", "^Uid:", "/proc/1/status"]).output.decode().split()[1:]
        assert set(uids) == {str(UID)}
        root_mount = container.exec(["awk", '$2 == "/" { print $4 }', "/proc/mounts"]).output.decode()
        assert "ro" in root_mount.strip().split(",")

        began = time.monotonic()
        wrapped.stop(timeout=STOP_S_MAX)  # After that many seconds it is killed, and the exit code is 137.
        took_s = time.monotonic() - began
        wrapped.reload()
        assert (status(), wrapped.attrs["State"]["ExitCode"]) == ("exited", 0)
        assert took_s < STOP_S_MAX

    assert_nothing_left(engine)


# -- bad input: one sentence that names it, the exit code, no stack trace -----------------------------------------------


def test_missing_settings_mount_is_named(image: str) -> None:
    container = hardened(image, network="none").with_command(["tune", "--config", CONFIG])
    assert_refused(container, 2, f"{CONFIG}: cannot be read: No such file or directory")


def test_folder_in_place_of_the_settings_is_named(image: str, tmp_path: Path) -> None:
    """Docker mounts an empty folder if the name of the file is mistyped."""
    container = hardened(image, network="none").with_command(["tune", "--config", CONFIG])
    container.with_volume_mapping(str(tmp_path), CONFIG, "ro")
    tmp_path.chmod(0o755)
    assert_refused(container, 2, f"{CONFIG}: cannot be read: Is a directory")


@pytest.mark.parametrize(
    ("command", "code", "settings", "text"),
    [
        ("tune", 2, {"tuner": {"http": {"tokens_file": "{}"}}}, "{}: cannot be read: Permission denied"),
        (
            "collect",
            1,
            {"collector": {"username": "monitor", "password_file": "{}"}},
            "collector.password_file {}: Permission denied",
        ),
    ],
    ids=["tokens", "password of the agents"],
)
def test_unreadable_secret_is_named(
    image: str, config_dir: Path, command: str, code: int, settings: dict[str, dict[str, object]], text: str
) -> None:
    secret = config_dir / "secret"
    secret.write_text("x")
    secret.chmod(0o600)  # Of this test's user, which is not the container's.
    path = f"{Path(CONFIG).parent}/secret"
    change_settings(config_dir, yaml.safe_load(yaml.safe_dump(settings).replace("{}", path)))
    container = hardened(image, network="host").with_command([command, "--config", CONFIG])
    container.with_volume_mapping(str(config_dir), str(Path(CONFIG).parent), "ro")
    assert_refused(container, code, text.replace("{}", path))


def test_read_only_checkpoint_is_named(image: str, config_dir: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir(mode=0o777)
    container = hardened(image, network="host").with_command(["stream", "--config", CONFIG])
    container.with_volume_mapping(str(config_dir), str(Path(CONFIG).parent), "ro")
    container.with_volume_mapping(str(checkpoint), f"{STATE}/checkpoint", "ro")
    assert_refused(
        container, 1, f"The checkpoint {STATE}/checkpoint cannot be written: its file system is mounted read-only"
    )


def test_checkpoint_of_another_user_is_named(image: str, config_dir: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir(mode=0o700)
    container = hardened(image, network="host").with_command(["stream", "--config", CONFIG])
    container.with_volume_mapping(str(config_dir), str(Path(CONFIG).parent), "ro")
    container.with_volume_mapping(str(checkpoint), f"{STATE}/checkpoint")
    assert_refused(container, 1, f"{STATE}/checkpoint", "cannot be written")


def test_manual_runs_container_as_hardened_as_this_test() -> None:
    manual = INSTALL_MANUAL.read_text().replace("\\\n", " ")
    (command,) = re.findall(r"^docker run .*$", manual, re.M)
    options = shlex.split(command)
    given = dict(itertools.pairwise(options))
    assert "--read-only" in options
    assert {key: given[key] for key in MANUAL_HARDENING} == MANUAL_HARDENING
    assert given["-p"] == "9464-9467:9464-9467"
    assert given["--env-file"] == "rheostat.env"


def test_manual_creates_the_token_before_using_it(tmp_path: Path) -> None:
    (block,) = re.findall(r"docker build -t rheostat \.\n(.*?)docker run", INSTALL_MANUAL.read_text(), re.S)
    subprocess.run(["bash", "-euc", block], cwd=tmp_path, check=True, timeout=20)
    file = tmp_path / "rheostat.env"
    assert file.stat().st_mode & 0o077 == 0
    environ = dict(line.split("=", 1) for line in file.read_text().splitlines())
    settings = load_settings(conf_file("rheostat.yaml"), environ)
    endpoints = (settings.tuner.http, settings.collector.http, settings.stream.http, settings.learn.http)
    assert [(at.host, at.port) for at in endpoints] == [("0.0.0.0", port) for port in (9464, 9465, 9466, 9467)]
    assert len({at.read_token.get_secret_value() for at in endpoints if at.read_token is not None}) == 1


def hardened(image: str, *, network: str, entrypoint: str | None = None) -> DockerContainer:
    """A container as the manual recommends to run it."""
    return (
        DockerContainer(image)
        .with_tmpfs_mount("/tmp")
        .with_kwargs(
            network=network,
            entrypoint=entrypoint,
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            pids_limit=512,
            mem_limit="3g",
        )
    )


def is_podman(engine: docker.DockerClient) -> bool:
    return any(part["Name"] == "Podman Engine" for part in engine.version()["Components"])


def run_to_end(container: DockerContainer) -> tuple[int, str]:
    """Runs a container that ends by itself; returns its exit code and what it printed."""
    with container:
        code = int(container.wait())
        return code, container.get_wrapped_container().logs().decode(errors="replace")


def assert_refused(container: DockerContainer, code: int, *texts: str) -> str:
    """Runs a container that must end with this code and one last line that has these texts; returns the line."""
    ended_with, said = run_to_end(container)
    assert ended_with == code, said
    assert "Traceback" not in said
    assert "\tat " not in said
    last = said.strip().splitlines()[-1]
    assert all(text in last for text in texts), said
    return last


def change_settings(config_dir: Path, change: dict[str, dict[str, object]]) -> None:
    """Changes keys in sections of the settings file."""
    file = config_dir / "rheostat.yaml"
    settings = yaml.safe_load(file.read_text())
    for section, keys in change.items():
        settings[section] = {**settings.get(section, {}), **keys}
    file.write_text(yaml.safe_dump(settings, sort_keys=False))


def has_read_cluster(port: int) -> bool:
    """Returns whether the tuner shows its first cycle."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=5) as answer:
            return json.loads(answer.read())["reassigning_partitions"] is not None
    except OSError:
        return False


@contextmanager
def kept_logs(container: DockerContainer) -> Iterator[None]:
    """Runs and removes the container; a failure contains its logs."""
    with container:
        try:
            yield
        except BaseException as error:
            said = container.get_wrapped_container().logs().decode(errors="replace")
            error.add_note(f"the container said:\n{said[-20_000:]}")
            raise


def assert_nothing_left(engine: docker.DockerClient) -> None:
    assert engine.containers.list(all=True, filters={"label": f"{LABEL_SESSION_ID}={SESSION_ID}"}) == []


def http_status(url: str, token: str | None = None) -> int | None:
    """Returns the status, or None while the port is closed."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return int(error.code)
    except OSError:
        return None


def until(probe: Callable[[], T], timeout_s: float, what: str) -> T:
    """Waits for the first true result of ``probe`` and returns it; fails after the timeout."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > deadline:
            pytest.fail(f"not within {timeout_s:.0f} s: {what}", pytrace=False)
        time.sleep(0.2)
