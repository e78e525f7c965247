"""A real systemd runs the shipped units: ready, reload, the watchdog, and settings that cannot be used.

systemd is PID 1 of a container that has this source tree. The units are those of deploy/systemd. A drop-in names the source tree, makes
the watchdog quicker, and leaves out what a container of this kind cannot make: the user namespace, and the mount with the credentials.
So secrets come from the unit's .env file. The container uses the machine's network, since the lab listens on the loopback.
"""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from lab_parts import until

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports

ROOT = Path(__file__).resolve().parents[2]
LAB = LabSpec(brokers=1)
TAG = "rheostat-systemd:test"
DOCKERFILE = """\
FROM debian:bookworm-slim
RUN apt-get update \\
 && apt-get install -y --no-install-recommends systemd libnss-systemd procps python3 \\
 && rm -rf /var/lib/apt/lists/*
"""
PROGRAM = '#!/bin/sh\nexec /usr/bin/python3 -m rheostat "$@"\n'
# The watchdog's own interval is 90 s.
DROP_IN = "[Service]\nEnvironment=PYTHONPATH=/src:/site-packages\nWatchdogSec=8s\nTimeoutAbortSec=2s\nRestartSec=100ms\nPrivateUsers=no\nLoadCredential=\n"
TOKEN = "f" * 24

pytestmark = [pytest.mark.campaign, pytest.mark.image, pytest.mark.timeout(900)]

Systemctl = Callable[..., str]


def docker(*arguments: str, check: bool = True, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=400, check=check, input=text)


@pytest.fixture(scope="module")
def image() -> str:
    if docker("image", "inspect", "debian:bookworm-slim", check=False).returncode != 0:
        pytest.skip(
            "no Docker engine answers, or it has no debian:bookworm-slim; see ci/docker-engine.sh and ci/base-image.sh"
        )
    docker("build", "--quiet", "--tag", TAG, "-", text=DOCKERFILE)
    return TAG


@pytest.fixture
def container(image: str, lab: Lab, tmp_path: Path) -> Iterator[str]:
    etc, program = tmp_path / "etc", tmp_path / "rheostat"
    etc.mkdir()
    settings = yaml.safe_load(lab_config(lab, http={"port": free_ports(1)[0], "host": "0.0.0.0"}))
    settings["stream"]["checkpoint_dir"] = "/var/lib/rheostat/checkpoint"
    (etc / "rheostat.yaml").write_text(yaml.safe_dump(settings))
    # The address of the settings needs a token.
    for unit in ("rheostat-tune", "rheostat-collect"):
        (etc / f"{unit}.env").write_text(f"RHEOSTAT_TUNER__HTTP__READ_TOKEN={TOKEN}\n")
    program.write_text(PROGRAM)
    for path, mode in ((tmp_path, 0o755), (etc, 0o755), (etc / "rheostat.yaml", 0o644), (program, 0o755)):
        path.chmod(mode)
    volumes = {
        ROOT: "/src", Path(sysconfig.get_path("purelib")): "/site-packages", etc: "/etc/rheostat", program: "/opt/rheostat/bin/rheostat",
    }  # fmt: skip
    name = f"rheostat-systemd-{lab.home.name}"
    started = docker(
        "run", "--detach", "--name", name, "--network", "host", "--cgroupns", "private", "--cap-add", "SYS_ADMIN",
        "--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined", "--env", "container=docker",
        "--tmpfs", "/run", "--tmpfs", "/run/lock", "--tmpfs", "/tmp",
        *(word for source, target in volumes.items() for word in ("--volume", f"{source}:{target}:ro")),
        image, "/lib/systemd/systemd", check=False,
    )  # fmt: skip
    try:
        if started.returncode != 0:
            pytest.skip(f"this machine runs no systemd in a container: {started.stderr.strip()[-200:]}")
        until(lambda: "running" in inside(name, "systemctl", "is-system-running").stdout, 60, "systemd has booted")
        for unit in ("rheostat-tune", "rheostat-collect"):
            inside(name, "cp", f"/src/deploy/systemd/{unit}.service", "/etc/systemd/system/")
            write_in(name, f"/etc/systemd/system/{unit}.service.d/test.conf", DROP_IN)
        inside(name, "systemctl", "daemon-reload")
        yield name
    finally:
        docker("rm", "--force", "--volumes", name, check=False)


def inside(container: str, *command: str) -> subprocess.CompletedProcess[str]:
    return docker("exec", container, *command, check=False)


def write_in(container: str, path: str, text: str) -> None:
    docker("exec", "-i", container, "sh", "-c", f"umask 077; mkdir -p {Path(path).parent}; cat > {path}", text=text)


def state(container: str, unit: str) -> dict[str, str]:
    """Returns what systemd knows about a unit."""
    wanted = "ActiveState,SubState,StatusText,NRestarts,Result,MainPID,ExecMainStatus"
    lines = inside(container, "systemctl", "show", unit, f"--property={wanted}").stdout.splitlines()
    return dict(line.split("=", 1) for line in lines)


def journal(container: str, unit: str, *options: str) -> str:
    return inside(container, "journalctl", "--unit", unit, "--output", "cat", "--no-pager", *options).stdout


def test_units_live_under_systemd(container: str) -> None:
    for unit, status in (("rheostat-collect", "measures"), ("rheostat-tune", "")):
        started = inside(container, "systemctl", "start", unit)  # Returns when the unit is ready.
        assert started.returncode == 0, journal(container, unit)
        found = state(container, unit)
        assert (found["ActiveState"], found["SubState"]) == ("active", "running")
        assert status in found["StatusText"]
    assert "The status page is at" in journal(container, "rheostat-tune")
    assert '"level": "info"' in journal(container, "rheostat-tune")
    assert '"level": "info"' not in journal(container, "rheostat-tune", "--priority", "warning")
    process = f"/proc/{state(container, 'rheostat-tune')['MainPID']}"
    assert inside(container, "stat", "--format", "%U", process).stdout.strip() == "rheostat"

    assert inside(container, "systemctl", "reload", "rheostat-tune").returncode == 0
    until(lambda: "nothing to reload" in journal(container, "rheostat-tune"), 20, "the reload is carried out")
    until(lambda: state(container, "rheostat-tune")["SubState"] == "running", 10, "the reload has ended")

    hung = state(container, "rheostat-collect")["MainPID"]
    inside(container, "kill", "-STOP", hung)
    until(
        lambda: state(container, "rheostat-collect")["NRestarts"] == "1", 60, "the watchdog restarts the hung collector"
    )
    until(lambda: state(container, "rheostat-collect")["SubState"] == "running", 60, "the new collector is ready")
    assert state(container, "rheostat-collect")["MainPID"] != hung
    assert "Watchdog timeout" in journal(container, "rheostat-collect")

    assert inside(container, "systemctl", "stop", "rheostat-tune", "rheostat-collect").returncode == 0
    assert state(container, "rheostat-tune")["Result"] == "success"


def test_secret_that_cannot_be_used_ends_the_unit_for_good(container: str) -> None:
    bad = "[Service]\nEnvironmentFile=\nEnvironment=RHEOSTAT_TUNER__HTTP__READ_TOKEN=geheim\n"
    write_in(container, "/etc/systemd/system/rheostat-tune.service.d/zz.conf", bad)
    inside(container, "systemctl", "daemon-reload")
    assert inside(container, "systemctl", "start", "rheostat-tune").returncode != 0
    found = state(container, "rheostat-tune")
    assert (found["ActiveState"], found["ExecMainStatus"], found["NRestarts"]) == ("failed", "2", "0")
    said = journal(container, "rheostat-tune")
    assert "read_token has fewer than 16 characters" in said
    assert "Traceback" not in said
    assert "geheim" not in said
