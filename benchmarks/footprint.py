"""Measures the tuner's start time and memory, checks that it loads no JVM, and measures the CPU time of an idle rheostat.

A real tuner process runs against a real idle cluster. A bare interpreter with the same Kafka client is the lower bound. For the
CPU time a collector and a stream run beside the tuner; nothing moves, and no client works.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from rheostat.run.process import spawn, stop

READY_S_MAX = 3.0
RSS_MB_MAX = 150.0
RUNS = 5
COMPILE_S_MAX = 120.0
SETTLE_S = 20.0
IDLE_CORES_MAX = 0.1  # Of the tuner and the collector together.
IDLE_SETTLE_S, IDLE_S = 60.0, 60.0  # After a minute the compilers of the JVMs have done most of their work.
PARTS = ("collect", "stream", "tune")
_BARE = "import kafka, kafka.admin, sys; sys.stdin.read()"


def measure() -> dict[str, Any]:
    _compile_modules()
    with Lab(LabSpec(brokers=3)) as lab, tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "rheostat.yaml"
        port = free_ports(1)[0]
        config.write_text(lab_config(lab, http={"port": port}))
        log = Path(folder) / "tuner.log"
        ready_s = []
        rss_mb = threads = jvms = 0.0
        for run in range(RUNS):
            began = time.monotonic()
            tuner = spawn([sys.executable, "-m", "rheostat", "tune", "--config", str(config)], log=log)
            try:
                _until_first_cycle(port, began + 30)
                ready_s.append(time.monotonic() - began)
                if run == RUNS - 1:
                    threading.Event().wait(SETTLE_S)
                    process = psutil.Process(tuner.pid)
                    rss_mb = process.memory_info().rss / 1e6
                    threads = process.num_threads()
                    jvms = sum("java" in child.name() for child in process.children(recursive=True))
            finally:
                stop(tuner, grace_s=10)
        idle_cores = _idle_cores(Path(folder), config)
    return {
        "ready_s_median": round(sorted(ready_s)[RUNS // 2], 2),
        "ready_s_max": round(max(ready_s), 2),
        "ready_s_bound": READY_S_MAX,
        "rss_mb": round(rss_mb, 1),
        "rss_mb_bare_client": round(_bare_rss_mb(), 1),
        "rss_mb_bound": RSS_MB_MAX,
        "threads": int(threads),
        "jvms": int(jvms),
        "idle_cores_tune_collect": round(idle_cores["tune"] + idle_cores["collect"], 3),
        "idle_cores_tune": round(idle_cores["tune"], 3),
        "idle_cores_collect": round(idle_cores["collect"], 3),
        "idle_cores_stream": round(idle_cores["stream"], 3),
        "idle_cores_bound": IDLE_CORES_MAX,
    }


def _compile_modules() -> None:
    """Writes the bytecode of all modules, as pip does. Otherwise the first start of a checkout compiles the modules."""
    root = Path(__file__).parents[1]
    folders = [*(str(root / package) for package in ("rheostat", "streaming", "tuner")), sysconfig.get_path("purelib")]
    subprocess.run([sys.executable, "-m", "compileall", "-q", *folders], timeout=COMPILE_S_MAX, check=True)


def _idle_cores(folder: Path, config: Path) -> dict[str, float]:
    """Returns the CPU time per second of each part on an idle cluster, with that of its child processes."""
    settings = json.loads(config.read_text())
    for part in ("collector", "stream"):
        settings[part]["http"] = {"port": None}
    config.write_text(json.dumps(settings))
    with ExitStack() as teardown:
        parts = {}
        for part in PARTS:
            process = spawn(
                [sys.executable, "-m", "rheostat", part, "--config", str(config)], log=folder / f"idle-{part}.log"
            )
            teardown.callback(stop, process, grace_s=15)
            parts[part] = psutil.Process(process.pid)
        threading.Event().wait(IDLE_SETTLE_S)
        before_s = {part: _cpu_s(process) for part, process in parts.items()}
        threading.Event().wait(IDLE_S)
        return {part: (_cpu_s(process) - before_s[part]) / IDLE_S for part, process in parts.items()}


def _cpu_s(process: psutil.Process) -> float:
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return float(sum(time.user + time.system for time in times))


def _until_first_cycle(port: int, deadline_s: float) -> None:
    """Waits until the tuner has read the cluster; an open port alone does not count."""
    while time.monotonic() < deadline_s:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=1) as answer:
                if json.loads(answer.read())["reassigning_partitions"] is not None:
                    return
        except OSError:
            pass  # Not listening yet; asked again until the deadline.
        threading.Event().wait(0.02)
    raise SystemExit("the tuner did not become ready")


def _bare_rss_mb() -> float:
    with subprocess.Popen([sys.executable, "-c", _BARE], stdin=subprocess.PIPE) as bare:
        threading.Event().wait(2.0)
        rss = float(psutil.Process(bare.pid).memory_info().rss) / 1e6
        bare.kill()
    return rss


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args(arguments).json
    found = measure()
    if as_json:
        print(json.dumps(found))
    else:
        print(f"{'tuner':34} {'measured':>10} {'bound':>8}  ratio")
        for name, value, bound in (
            ("ready, median of 5, s", found["ready_s_median"], READY_S_MAX),
            ("ready, longest of 5, s", found["ready_s_max"], READY_S_MAX),
            ("memory (RSS), MB", found["rss_mb"], RSS_MB_MAX),
            ("  of it a bare Kafka client, MB", found["rss_mb_bare_client"], RSS_MB_MAX),
            ("idle tuner and collector, % of a core", 100 * found["idle_cores_tune_collect"], 100 * IDLE_CORES_MAX),
        ):
            print(f"{name:34} {value:10.2f} {bound:8.0f}  {value / bound:.2f}")
        print(f"{'idle stream, % of a core':34} {100 * found['idle_cores_stream']:10.2f}")
        print(f"{'JVMs among its children':34} {found['jvms']:10d} {0:8d}")
    well = (
        found["ready_s_max"] <= READY_S_MAX
        and found["rss_mb"] <= RSS_MB_MAX
        and found["jvms"] == 0
        and found["idle_cores_tune_collect"] <= IDLE_CORES_MAX
    )
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
