"""Keeps a lab running after the command that started it.

`up` starts a keeper process that holds the lab, and returns when the lab is up; `down` ends that process. If the keeper is killed,
the kernel ends the nodes.
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
from rheostat.lab.cluster import HOME_PREFIX, START_S_MAX, Lab, LabError, LabSpec
from rheostat.run.process import stop

_STOP_S_MAX = 20.0
_REMOVE_S_MAX = 5.0
_POLL_S = 0.05
_WAKE_S = 0.5


def up(name: str, brokers: int, controllers: int) -> str:
    """Starts a lab and returns the text for the user: its address and how to use it."""
    file = _file(name)
    for other, how in ((file, "up"), (_starting(file), "starting")):
        if _keeper(other) is not None:
            raise BadInputError(f"Lab {name!r} is {how} already: `rheostat lab down --name {name}`, or another --name.")
    file.parent.mkdir(parents=True, exist_ok=True)
    _sweep(file)
    log = file.with_suffix(".log")
    log.unlink(missing_ok=True)
    with log.open("wb") as out:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "rheostat", "lab", "keep", name, str(brokers), str(controllers)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    stands = False
    try:
        deadline = time.monotonic() + START_S_MAX + 600  # The JVM artifacts may have to be fetched first.
        while not file.exists():
            if keeper.poll() is not None:
                raise LabError(log.read_text(errors="replace").strip() or f"The lab ended at once; see {log}.")
            if time.monotonic() > deadline:
                raise LabError(f"The lab did not come up in time; see {log}.")
            threading.Event().wait(_POLL_S)
        stands = True
    finally:
        if not stands:
            stop(keeper, grace_s=_STOP_S_MAX)
            _sweep(file)
    about = json.loads(file.read_text())
    return (
        f"Lab {name!r} is up: bootstrap_servers {about['bootstrap_servers']}\n"
        f"settings for it: {about['config']}   (rheostat run --config {about['config']})\n"
        f"stop it with: rheostat lab down --name {name}"
    )


def down(name: str) -> str:
    file = _file(name)
    keeper = _keeper(file) or _keeper(_starting(file))
    if keeper is None:
        _sweep(file)
        return f"No lab {name!r} is up."
    keeper.terminate()
    try:
        keeper.wait(timeout=_STOP_S_MAX)
    except psutil.TimeoutExpired:
        keeper.kill()  # Its nodes go with it.
        keeper.wait(timeout=_STOP_S_MAX)
    _sweep(file)
    return f"Lab {name!r} is down."


def keep(name: str, brokers: int, controllers: int) -> None:
    """Holds a lab until SIGTERM."""
    told = threading.Event()
    numbers = (signal.SIGTERM, signal.SIGINT)

    def leave(number: int, _: FrameType | None) -> NoReturn:
        told.set()  # The exception below is lost if it hits a finalizer; the event is not.
        raise SystemExit(128 + number)

    for number in numbers:
        signal.signal(number, leave)
    file, artifacts = _file(name), resolve_artifacts()  # This may download them; Ctrl-C ends that.
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # A signal here would leave a folder that no file names.
    lab = Lab(LabSpec(brokers=brokers, controllers=controllers), artifacts=artifacts)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        me = psutil.Process()
        about = {"pid": me.pid, "started": me.create_time(), "home": str(lab.home)}
        _write(_starting(file), about)
        with lab:
            for number in numbers:
                signal.signal(number, lambda *_: told.set())
            config = lab.home / "rheostat.yaml"
            config.write_text(lab_config(lab))
            _write(file, {**about, "bootstrap_servers": lab.bootstrap_servers, "config": str(config)})
            _starting(file).unlink()
            while not told.wait(_WAKE_S):
                pass  # No endless wait: it would miss a signal that comes just before it.
    finally:
        lab.close()
        for one in (file, _starting(file)):
            one.unlink(missing_ok=True)


def lab_config(lab: Lab, **tuner: Any) -> str:
    """A settings file for a lab, as an operator would write it. JSON is YAML."""
    body = {
        "cluster": "lab",
        "kafka": {"bootstrap_servers": lab.bootstrap_servers},
        "collector": {"endpoints": lab.jmx_urls()},
        # A lab is small and soon gone: the compiler that is ready sooner.
        "stream": {"checkpoint_dir": str(lab.home / "checkpoint"), "start": "earliest", "compiler": "quick"},
        "tuner": {"dry_run": False, "rate_bytes_per_s_max": 30_000_000, "http": {"port": 0}, **tuner},
    }
    return json.dumps(body, indent=2)


def _sweep(file: Path) -> None:
    """Removes the folders and files of a killed keeper, also of one that was killed while it started."""
    for one in (file, _starting(file)):
        try:
            home = Path(json.loads(one.read_text())["home"])
        except (FileNotFoundError, ValueError, KeyError):
            continue
        if home.name.startswith(HOME_PREFIX):
            _remove(home)
        one.unlink(missing_ok=True)


def _remove(home: Path) -> None:
    deadline = time.monotonic() + _REMOVE_S_MAX
    while home.exists():
        shutil.rmtree(home, ignore_errors=True)
        if time.monotonic() > deadline:
            return
        threading.Event().wait(_POLL_S)  # Nodes that the kernel is ending may have written into it meanwhile.


def _file(name: str) -> Path:
    return state_dir() / "labs" / f"{name}.json"


def _starting(file: Path) -> Path:
    """Returns the file that a keeper writes while its lab starts."""
    return file.with_suffix(".starting")


def _write(file: Path, about: Mapping[str, Any]) -> None:
    """Writes the file atomically: other processes may read it meanwhile."""
    partial = file.with_name(f"{file.name}.part")
    partial.write_text(json.dumps(about))
    partial.rename(file)


def _keeper(file: Path) -> psutil.Process | None:
    """Returns the keeper process; None when it has ended, also if another process has its pid now."""
    try:
        about = json.loads(file.read_text())
        process = psutil.Process(about["pid"])
        alive = process.status() != psutil.STATUS_ZOMBIE and abs(process.create_time() - about["started"]) < 1
        return process if alive else None
    except (FileNotFoundError, psutil.NoSuchProcess, ValueError, KeyError):
        return None
