"""The commands as processes: exit codes, one-sentence messages, and their duration."""

from __future__ import annotations

import json
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab_parts import RHEOSTAT, rheostat, within

from rheostat.config.settings import load_settings
from rheostat.errors import EXIT_OUTPUT_CLOSED

UNREACHABLE_S_MAX = 10.0
GOOD: dict[str, Any] = {
    "cluster": "main",
    "kafka": {"bootstrap_servers": "127.0.0.1:9"},
    "stream": {"checkpoint_dir": "/nonexistent/checkpoint"},
    "tuner": {"rate_bytes_per_s_max": 50_000_000, "http": {"port": 0}},
}


def write(folder: Path, text: str) -> Path:
    file = folder / "rheostat.yaml"
    file.write_text(text)
    return file


def good(folder: Path, **kafka: Any) -> Path:
    return write(folder, yaml.safe_dump({**GOOD, "kafka": {**GOOD["kafka"], **kafka}}, sort_keys=False))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("tuner:", "tunr:", ":6: tunr: unknown key: did you mean tuner?"),
        ("bootstrap_servers:", "bootstrap_server:", ":3: kafka.bootstrap_server: unknown key: did you mean bootstrap_servers?"),
        ("cluster: main\n", "", "cluster: is missing: a name for the cluster"),
        ("50000000", "fast", ":7: tuner.rate_bytes_per_s_max: expected a rate such as 50MB/s"),
        ("50000000", "-1", ":7: tuner.rate_bytes_per_s_max: input should be greater than or equal to 1"),
        ("50000000", "1000", "rate_bytes_per_s_min (5000000) is above rate_bytes_per_s_max (1000)"),
        ("port: 0", "port: 70000", ":9: tuner.http.port: input should be less than or equal to 65535"),
        ("cluster: main", "cluster: main\ncluster: other", ":2: cluster is repeated; it is already in line 1"),
        ("cluster: main", "cluster: [", "not YAML"),
        ("cluster: main", "cluster: a b", ":1: cluster: string should match pattern"),
    ],
)  # fmt: skip
def test_settings_error_names_key_line_and_expected_value(tmp_path: Path, old: str, new: str, expected: str) -> None:
    text = yaml.safe_dump(GOOD, sort_keys=False)
    assert old in text
    config = write(tmp_path, text.replace(old, new, 1))

    done = rheostat("config", "check", "--config", config)

    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr
    assert str(config) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["run", "collect", "stream", "tune", "learn", "status", "signals", "doctor"])
def test_no_command_starts_with_a_faulty_file(tmp_path: Path, command: str) -> None:
    config = write(tmp_path, yaml.safe_dump({**GOOD, "speed": 9}, sort_keys=False))

    done = rheostat(*command.split(), "--config", config)

    assert done.returncode == 2
    assert done.stderr.startswith(f"{config}:10: speed: unknown key: ")
    assert len(done.stderr.strip().splitlines()) == 1


def test_all_settings_errors_are_reported_in_one_run(tmp_path: Path) -> None:
    config = write(tmp_path, yaml.safe_dump({**GOOD, "speed": 9, "cluster": 7, "colour": "red"}, sort_keys=False))

    done = rheostat("config", "check", "--config", config)

    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 3


@pytest.mark.parametrize(
    "content", [None, b"\xff\xfe", b"- a\n- b\n", b""], ids=["none", "not text", "a list", "empty"]
)
def test_file_without_settings_is_refused(tmp_path: Path, content: bytes | None) -> None:
    config = tmp_path / "rheostat.yaml"
    if content is not None:
        config.write_bytes(content)

    done = rheostat("config", "check", "--config", config)

    assert done.returncode == 2
    assert str(config) in done.stderr
    assert "Traceback" not in done.stderr


def test_fault_in_the_environment_is_refused(tmp_path: Path) -> None:
    done = rheostat("config", "check", "--config", good(tmp_path), env={"RHEOSTAT_TUNER__DRY_RUNN": "true"})

    assert done.returncode == 2
    assert "tuner.dry_runn: unknown key: did you mean dry_run?" in done.stderr
    assert "RHEOSTAT_TUNER__DRY_RUNN" in done.stderr


def test_config_check_and_show_hide_the_password(tmp_path: Path) -> None:
    config = good(
        tmp_path, security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_username="me", sasl_password="hush-hush"
    )  # fmt: skip
    env = {"RHEOSTAT_TUNER__DRY_RUN": "true"}

    check = rheostat("config", "check", "--config", config, env=env)
    show = rheostat("config", "show", "--config", config, env=env)

    assert (check.returncode, check.stdout) == (0, f"{config}: no faults\n")
    assert show.returncode == 0
    body = json.loads(show.stdout)
    assert body["tuner"]["dry_run"] is True
    assert body["collector"]["interval_s"] == 5.0
    assert body["kafka"]["sasl_username"] == "me"
    assert "hush" not in check.stdout + show.stdout + check.stderr + show.stderr


def test_settings_reference_names_every_key_and_checks_files(tmp_path: Path) -> None:
    made = rheostat("config", "reference")
    assert made.returncode == 0
    for key in (
        "cluster",
        "kafka.bootstrap_servers",
        "collector.interval_s",
        "stream.checkpoint_dir",
        "tuner.http.port",
    ):
        assert f"| `{key}` |" in made.stdout

    current = tmp_path / "configuration.md"
    current.write_text(made.stdout)
    assert rheostat("config", "reference", "--check", current).returncode == 0

    current.write_text(made.stdout + "more\n")
    stale = rheostat("config", "reference", "--check", current)
    assert stale.returncode == 1
    assert "is outdated: the settings in the code have changed" in stale.stderr


def test_shipped_settings_file_is_valid_and_dry_run() -> None:
    shipped = Path(__file__).resolve().parents[2] / "conf" / "rheostat.yaml"

    assert rheostat("config", "check", "--config", shipped).returncode == 0
    assert load_settings(shipped, {}).tuner.dry_run is True


def soon(command: str, config: Path) -> subprocess.CompletedProcess[str]:
    return within(UNREACHABLE_S_MAX, lambda: rheostat(*command.split(), "--config", config))


@pytest.mark.parametrize(
    "commands",
    [("tune", "collect"), ("stream", "run"), ("status", "doctor"), ("plan estimate", "signals")],
    ids=" and ".join,
)
def test_absent_cluster_is_reported_within_ten_seconds(tmp_path: Path, commands: tuple[str, str]) -> None:
    config = good(tmp_path)
    with ThreadPoolExecutor(2) as pool:  # Two at a time: nearly all of it is waiting.
        answers = dict(zip(commands, pool.map(lambda command: soon(command, config), commands), strict=True))

    for command, done in answers.items():
        assert done.returncode == 3, command
        said = done.stdout if command == "doctor" else done.stderr
        assert len([line for line in said.splitlines() if "127.0.0.1:9" in line]) == 1
        if command in {"run", "tune"}:  # Their first line says whether the tuner acts.
            assert said.splitlines()[0].count("Dry run: the tuner decides, but changes nothing") == 1
            assert len(said.strip().splitlines()) == 2
        elif command != "doctor":  # It also tells what it thinks of this machine.
            assert len(said.strip().splitlines()) == 1


def test_silent_cluster_is_reported_within_ten_seconds(tmp_path: Path) -> None:
    """The port accepts connections and never answers, like a hanging broker or a firewall that drops packets."""
    with socket.socket() as silent, ThreadPoolExecutor(2) as pool:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        config = good(tmp_path, bootstrap_servers=f"127.0.0.1:{silent.getsockname()[1]}")
        for done in pool.map(lambda command: soon(command, config), ("tune", "status")):
            assert done.returncode == 3


@pytest.mark.parametrize("arguments", [("tune",), ("tune", "--config"), ("retune",), ("lab", "sideways")], ids=" ".join)
def test_wrong_command_line_is_bad_input(arguments: tuple[str, ...]) -> None:
    done = rheostat(*arguments)

    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_closed_output_pipe_ends_the_command_quietly() -> None:
    process = subprocess.Popen([*RHEOSTAT, "config", "reference"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()

    assert process.wait(timeout=60) == EXIT_OUTPUT_CLOSED
    assert process.stderr.read() == b""
    process.stderr.close()
