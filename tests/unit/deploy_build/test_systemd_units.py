"""The units of deploy/systemd: systemd accepts them, they are hardened, and they run commands that exist."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import typer

from deploy_build.systemd import CREDENTIALS, FOLDER, UNITS, Unit, render_unit
from rheostat.cli import app
from rheostat.config.settings import parse_settings

ROOT = Path(__file__).parents[3]
EXPOSURE_MAX = 1.5  # Of 10, as `systemd-analyze security` judges; 1.4 with systemd 252.

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd-analyze (Debian: systemd)"
)
each_unit = pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)


def directives(unit: Unit) -> list[tuple[str, str]]:
    lines = render_unit(unit).splitlines()
    return [(line.partition("=")[0], line.partition("=")[2]) for line in lines if "=" in line and line[0] != "#"]


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the units, whose program is one that exists here."""
    for unit in UNITS:
        text = (ROOT / FOLDER / f"{unit.name}.service").read_text()
        assert "/opt/rheostat/bin/rheostat" in text
        (tmp_path / f"{unit.name}.service").write_text(text.replace("/opt/rheostat/bin/rheostat", "/bin/true"))
    return tmp_path


@needs_systemd
@each_unit
def test_unit_is_accepted_by_systemd(unit: Unit, installed: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", str(installed / f"{unit.name}.service")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    complaints = [line for line in done.stderr.splitlines() if unit.name in line]
    assert (done.returncode, complaints) == (0, [])


@needs_systemd
@each_unit
def test_unit_is_exposed_little(unit: Unit, installed: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(installed / f"{unit.name}.service")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert found is not None, done.stderr
    assert float(found[1]) <= EXPOSURE_MAX


@each_unit
def test_unit_runs_a_command_of_the_program(unit: Unit) -> None:
    (command,) = (value for key, value in directives(unit) if key == "ExecStart")
    words = shlex.split(command)[1:]
    known = typer.main.get_command(app).commands[words[0]]  # type: ignore[attr-defined]  # the program is a group
    known.make_context(words[0], words[1:])


@each_unit
def test_unit_reloads_by_hangup(unit: Unit) -> None:
    assert [value for key, value in directives(unit) if key == "ExecReload"] == ["/bin/kill -HUP $MAINPID"]


def test_credentials_are_all_secret_settings(tmp_path: Path) -> None:
    assert {"kafka.sasl_password", "kafka.sasl_oauth_client_secret", "tuner.http.operate_token"} <= set(CREDENTIALS)
    for number, key in enumerate(CREDENTIALS):
        (tmp_path / key).write_text(f"{number}" * 24)
    text = (
        "cluster: c\nkafka: {bootstrap_servers: 'x:1', security_protocol: SASL_SSL, sasl_mechanism: PLAIN, sasl_username: r}\n"
        "stream: {checkpoint_dir: /x}\ntuner: {rate_bytes_per_s_max: 50000000}\n"
    )
    shown = repr(parse_settings(text, "f.yaml", {"CREDENTIALS_DIRECTORY": str(tmp_path)}))
    assert shown.count("SecretStr('**********')") == len(CREDENTIALS)
