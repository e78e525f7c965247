"""Keeps a lab running after the command that started it.

`up` starts a keeper process that runs the lab, and returns once the lab is up; `down` ends that process. If the keeper is killed,
the operating system ends the nodes (see ``spawn``).
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import psutil

from rheostat.config.resources import state_dir
from rheostat.errors import BadInputError
from rheostat.jvm.artifacts import resolve_artifacts
from rheostat.jvm.kafka_versions import check_kafka_version
from rheostat.lab.cluster import HOME_PREFIX, START_S_MAX, Lab, LabError, LabSpec
from rheostat.run.process import stop

_FETCH_S_MAX = 600.0  # The JVM artifacts may have to be fetched before the lab starts.
_STOP_S_MAX = 20.0
_REMOVE_S_MAX = 5.0
_POLL_S = 0.05
_WAKE_S = 0.5


def up(name: str, brokers: int, controllers: int, kafka: str | None = None) -> str:
    """Starts a lab and returns the text for the user: its address and how to use it."""
    version = [] if kafka is None else ["--kafka", check_kafka_version(kafka)]
    file = _file(name)
    for state_file, state in ((file, "up"), (_starting(file), "starting")):
        if _keeper(state_file) is not None:
            raise BadInputError(
                f"Lab {name!r} is {state} already: run `rheostat lab down --name {name}`, or give another --name."
            )
    file.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(file)
    log = file.with_suffix(".log")
    log.unlink(missing_ok=True)
    with log.open("wb") as out:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "rheostat", "lab", "keep", name, str(brokers), str(controllers), *version],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    is_up = False
    try:
        deadline_s = time.monotonic() + START_S_MAX + _FETCH_S_MAX
        while not file.exists():
            if keeper.poll() is not None:
                raise LabError(log.read_text(errors="replace").strip() or f"The lab ended at once; see {log}.")
            if time.monotonic() > deadline_s:
                raise LabError(f"The lab did not start in time; see {log}.")
            threading.Event().wait(_POLL_S)
        is_up = True
    finally:
        if not is_up:
            stop(keeper, grace_s=_STOP_S_MAX)
            _remove_leftovers(file)
    about = json.loads(file.read_text())
    return (
        f"Lab {name!r} is up: bootstrap_servers {about['bootstrap_servers']}\n"
        f"settings for it: {about['config']}   (rheostat run --config {about['config']})\n"
        f"stop it with: rheostat lab down --name {name}"
    )


def down(name: str) -> str:
    """Stops a lab, removes its files, and returns the text for the user."""
    file = _file(name)
    keeper = _keeper(file) or _keeper(_starting(file))
    if keeper is None:
        _remove_leftovers(file)
        return f"No lab {name!r} is up."
    keeper.terminate()
    try:
        keeper.wait(timeout=_STOP_S_MAX)
    except psutil.TimeoutExpired:
        keeper.kill()  # The operating system ends its nodes as well.
        keeper.wait(timeout=_STOP_S_MAX)
    _remove_leftovers(file)
    return f"Lab {name!r} is down."


def keep(name: str, brokers: int, controllers: int, kafka: str | None = None) -> None:
    """Runs a lab until SIGTERM."""
    end_requested = threading.Event()
    numbers = (signal.SIGTERM, signal.SIGINT)

    def end(number: int, _: FrameType | None) -> NoReturn:
        # Python drops the exception if the signal interrupts a finalizer, but the event stays set.
        end_requested.set()
        raise SystemExit(128 + number)

    for number in numbers:
        signal.signal(number, end)
    file, artifacts = _file(name), resolve_artifacts()  # This may download the artifacts; Ctrl-C ends the download.
    # A signal before the file is written would leave a folder that `down` cannot find.
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    lab = Lab(LabSpec(brokers=brokers, controllers=controllers, kafka=kafka), artifacts=artifacts)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        own_process = psutil.Process()
        about = {"pid": own_process.pid, "started": own_process.create_time(), "home": str(lab.home)}
        _write(_starting(file), about)
        with lab:
            for number in numbers:
                signal.signal(number, lambda *_: end_requested.set())
            config = lab.home / "rheostat.yaml"
            config.write_text(lab_config(lab, objective="auto"))
            _write(file, {**about, "bootstrap_servers": lab.bootstrap_servers, "config": str(config)})
            _starting(file).unlink()
            # Short waits, because an endless wait would miss a signal that arrives just before it.
            while not end_requested.wait(_WAKE_S):
                pass
    finally:
        lab.close()
        for state_file in (file, _starting(file)):
            state_file.unlink(missing_ok=True)


def lab_config(lab: Lab, **tuner: Any) -> str:
    """Returns the text of a settings file for a lab. It is JSON, which is also valid YAML.

    Without an objective in ``tuner`` the file has ``objective: off``: the tuner only rescues.
    """
    body = {
        "cluster": "lab",
        "kafka": {"bootstrap_servers": lab.bootstrap_servers},
        "collector": {"endpoints": lab.jmx_urls()},
        # A lab is small and runs only for a short time, so a JVM compiler that is ready sooner is better.
        "stream": {"checkpoint_dir": str(lab.home / "checkpoint"), "start": "earliest", "compiler": "quick"},
        "tuner": {
            "dry_run": False,
            "rate_bytes_per_s_max": 30_000_000,
            "http": {"port": 0},
            "objective": "off",
            **tuner,
        },
    }
    return json.dumps(body, indent=2)


def _remove_leftovers(file: Path) -> None:
    """Removes the folders and files that a killed keeper has left, even if it was killed while the lab started."""
    for state_file in (file, _starting(file)):
        try:
            home = Path(json.loads(state_file.read_text())["home"])
        except (FileNotFoundError, ValueError, KeyError):
            continue
        if home.name.startswith(HOME_PREFIX):
            _remove(home)
        state_file.unlink(missing_ok=True)


def _remove(home: Path) -> None:
    deadline_s = time.monotonic() + _REMOVE_S_MAX
    while home.exists():
        shutil.rmtree(home, ignore_errors=True)
        if time.monotonic() > deadline_s:
            return
        threading.Event().wait(_POLL_S)  # Nodes that are just being ended may still write into the folder.


def _file(name: str) -> Path:
    """Returns the file that a keeper writes once its lab is up."""
    return state_dir() / "labs" / f"{name}.json"


def _starting(file: Path) -> Path:
    """Returns the file that a keeper writes while its lab starts."""
    return file.with_suffix(".starting")


def _write(file: Path, about: Mapping[str, Any]) -> None:
    """Writes the file atomically, because other processes may read it at the same time."""
    partial = file.with_name(f"{file.name}.part")
    partial.write_text(json.dumps(about))
    partial.rename(file)


def _keeper(file: Path) -> psutil.Process | None:
    """Returns the keeper process that wrote this file; None if there is no file, or if the process has ended."""
    try:
        about = json.loads(file.read_text())
        process = psutil.Process(about["pid"])
        is_keeper = abs(process.create_time() - about["started"]) < 1  # If not, another process has got this pid.
        return process if is_keeper and process.status() != psutil.STATUS_ZOMBIE else None
    except (FileNotFoundError, psutil.NoSuchProcess, ValueError, KeyError):
        return None
