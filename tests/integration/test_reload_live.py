"""SIGHUP to a tuner on a real cluster: new settings apply within moments in the same process, without loss of state."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from pathlib import Path
from typing import Any

import yaml
from lab_parts import RHEOSTAT, rheostat, running, until

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports

LAB = LabSpec(brokers=1)
WAIT_S_MAX = 90.0


def asked(port: int, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def test_reload_applies_new_ceiling_and_ignores_invalid_file(lab: Lab, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    config = tmp_path / "rheostat.yaml"
    settings = yaml.safe_load(lab_config(lab, http={"port": port}, rate_bytes_per_s_max=30_000_000))

    def write(**tuner: Any) -> None:
        settings["tuner"] |= tuner
        config.write_text(yaml.safe_dump(settings))

    def status() -> dict[str, Any]:
        return dict(json.loads(asked(port, "/api/v1/status") or "{}"))

    def in_force() -> float | None:
        found = status()
        return found["rate_bytes_per_s_max"] if found.get("active") and found["last_cycle_at_ms"] else None

    def until_told(value: float, name: str, labels: str = "") -> None:
        """Waits until the metrics page has this value."""
        series = re.compile(rf"^{name}{{[^}}]*{labels}[^}}]*}} (\S+)$", re.M)
        until(
            lambda: [float(found) for found in series.findall(asked(port, "/metrics"))] == [value],
            WAIT_S_MAX,
            lambda: f"{name} is {value}: {series.findall(asked(port, '/metrics'))}",
        )

    def until_said(text: str) -> None:
        until(lambda: text in run.said(), WAIT_S_MAX, lambda: f"{text!r} in {run.said()[-3000:]}")

    write()
    with running(*RHEOSTAT, "tune", "--config", config, log=tmp_path / "tune.log") as run:
        until(lambda: in_force() == 30_000_000 or not run.alive(), WAIT_S_MAX, "the tuner acts")
        assert rheostat("pause", "-c", config).returncode == 0
        until(lambda: status().get("paused"), WAIT_S_MAX, "the pause is acknowledged")

        write(
            rate_bytes_per_s_max=20_000_000,
            objective={"latency_ms": 20},
            capacity={"in_bytes_per_s": 1e8, "out_bytes_per_s": 1e8},
        )
        run.process.send_signal(signal.SIGHUP)
        until(lambda: in_force() == 20_000_000, WAIT_S_MAX, "the new ceiling is in force")
        found = until(status, WAIT_S_MAX, "a status")
        assert found["objective"]["latency_ms"] == 20
        assert found["paused"], "what people have ordered holds on"
        until_told(1, "rheostat_config_in_force")
        until_told(1, "rheostat_config_reloads_total", 'result="taken"')
        until_told(20_000_000, "rheostat_throttle_rate_max_bytes_per_second")

        write(rate_bytes_per_s_maximum=10)
        run.process.send_signal(signal.SIGHUP)
        until_told(1, "rheostat_config_reloads_total", 'result="refused"')
        until_told(0, "rheostat_config_last_reload_successful")
        until_said("did you mean rate_bytes_per_s_max?")
        assert until(in_force, WAIT_S_MAX, "a status") == 20_000_000

        del settings["tuner"]["rate_bytes_per_s_maximum"]
        write(http={"port": port + 1})
        run.process.send_signal(signal.SIGHUP)
        until_told(2, "rheostat_config_reloads_total", 'result="refused"')
        until_said("a restart is needed for tuner.http")
        until_told(1, "rheostat_config_last_reload_successful")
        assert (until(in_force, WAIT_S_MAX, "a status"), run.alive()) == (20_000_000, True)

        assert len([line for line in run.lines() if line["event"] == "active"]) == 2
        assert "another tuner" not in run.said()
        assert run.end(signal.SIGTERM) == 0
