"""Real processes and a real cluster under a service manager: ready, reloading, hung, stopping, as systemd's protocol says it."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

import pytest
import yaml
from lab_parts import RHEOSTAT, running, until

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from notify_kit import notify_socket

LAB = LabSpec(brokers=1)
SAID_S_MAX = 40.0
WATCHDOG = {"WATCHDOG_USEC": "4000000"}
HANGING = (sys.executable, str(Path(__file__).with_name("hanging_tuner.py")))


def settings_file(lab: Lab, folder: Path, **tuner: object) -> Path:
    settings = yaml.safe_load(lab_config(lab, http={"port": free_ports(1)[0]}))
    settings["tuner"] |= tuner
    settings["stream"]["checkpoint_dir"] = str(folder / "checkpoint")
    file = folder / "rheostat.yaml"
    file.write_text(yaml.safe_dump(settings))
    return file


def test_tuner_tells_ready_reload_hang_and_stop(lab: Lab, tmp_path: Path) -> None:
    config, hang = settings_file(lab, tmp_path, cycle_s=1), tmp_path / "hang"
    with (
        notify_socket(tmp_path / "notify") as received,
        running(
            *HANGING, hang, "tune", "--config", config,
            log=tmp_path / "tune.log", env={"NOTIFY_SOCKET": received.address, **WATCHDOG},
        ) as tune,
    ):  # fmt: skip
        assert any(line.startswith("EXTEND_TIMEOUT_USEC=") for line in received.until("READY=1", 2 * SAID_S_MAX))
        received.until("WATCHDOG=1", SAID_S_MAX)

        config.write_text(config.read_text().replace("cycle_s: 1", "cycle_s: 1\n  rate_bytes_per_s_min: 6000000"))
        tune.process.send_signal(signal.SIGHUP)
        begun = received.until("RELOADING=1", SAID_S_MAX)
        assert any(line.startswith("READY=1") for line in begun) or received.until("READY=1", SAID_S_MAX)
        until(lambda: "the settings are reloaded" in tune.said(), 10, "the tuner takes the settings")

        hang.touch()
        until(lambda: "the work of this process has stopped" in tune.said(), 30, "the hang is noticed")
        received.take()
        threading.Event().wait(2 * 1.0 + 1.0)  # Two intervals of pings, a quarter of the watchdog's.
        assert "WATCHDOG=1" not in received.take(), "the service manager has to see the hang"
        hang.unlink()
        received.until("WATCHDOG=1", SAID_S_MAX)

        assert tune.end(signal.SIGTERM) == 0
        assert "STOPPING=1" in received.take(2)


@pytest.mark.campaign
def test_run_is_ready_when_its_parts_are(lab: Lab, tmp_path: Path) -> None:
    config = settings_file(lab, tmp_path)
    with (
        notify_socket(f"@rheostat-{tmp_path.name}-{free_ports(1)[0]}") as received,
        running(
            *RHEOSTAT, "run", "--config", config,
            log=tmp_path / "run.log", env={"NOTIFY_SOCKET": received.address, **WATCHDOG},
        ) as run,
    ):  # fmt: skip
        lines = received.until("READY=1", 120)
        (status,) = [line for line in lines[lines.index("READY=1") :] if line.startswith("STATUS=")][:1]
        assert "collect: measures; " in status
        assert "stream: the query runs; " in status
        assert "WATCHDOG=1" in lines, "also before it is ready"

        run.process.send_signal(signal.SIGHUP)
        begun = received.until("RELOADING=1", 10)
        assert "READY=1" in begun[begun.index("RELOADING=1") :] or received.until("READY=1", 10)

        # The parts have a socket of their own, so that nothing but `rheostat run` talks to the service manager.
        assert run.end(signal.SIGTERM, 20) == 0
        assert "STOPPING=1" in received.take(2)
        assert "Traceback" not in run.said()
