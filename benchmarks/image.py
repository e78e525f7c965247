"""Measures the container image: its size, the start of the tuner, and the time until the stream's first signals.

Each start is a new container as the manual hardens it, on a real cluster of three brokers outside of Docker. The collector runs
all the time. The tuner is ready with its first cycle; the stream is with a signal of each broker that it has made.

    make image && python -m benchmarks.image [--image rheostat:dev]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from rheostat.config.settings import Settings, load_settings
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.node import free_ports
from streaming.shared.kafka import consumer
from tuner.runtime.observe.signals_reader import SignalReader

SIZE_MB_MAX, TUNE_S_MAX, STREAM_S_MAX = 900.0, 5.0, 25.0
TUNE_RUNS, STREAM_RUNS = 5, 3
BROKERS = 3
_WAIT_S_MAX = 120.0
_HARDENING = (
    "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pids-limit", "512",
    "--memory", "3g", "--network", "host",
)  # fmt: skip


def measure(image: str) -> dict[str, Any]:
    size = int(_docker("image", "inspect", "--format", "{{.Size}}", image)) / 1e6
    with Lab(LabSpec(brokers=BROKERS)) as lab, tempfile.TemporaryDirectory() as folder:
        port = free_ports(1)[0]
        config = _write_settings(Path(folder), lab, port)
        with _container(image, config, "collect"):
            tune_s = [_timed(image, config, "tune", lambda: _has_read_cluster(port)) for _ in range(TUNE_RUNS)]
            signals = _Signals(load_settings(config))
            stream_s = [_timed(image, config, "stream", signals.are_complete, signals) for _ in range(STREAM_RUNS)]
    return {
        "size_mb": round(size, 1),
        "tune_s_median": round(sorted(tune_s)[TUNE_RUNS // 2], 2),
        "tune_s_max": round(max(tune_s), 2),
        "stream_s_median": round(sorted(stream_s)[STREAM_RUNS // 2], 2),
        "stream_s_max": round(max(stream_s), 2),
    }


class _Signals:
    """Reads the signals topic for signals of the stream that starts next."""

    def __init__(self, settings: Settings) -> None:
        self._reader = SignalReader(
            consumer(settings.kafka, "image-signals"), settings.topic_names().signals, settings.cluster
        )
        self._from_ms = 0.0

    def begin(self) -> None:
        """Ignores signals of everything that was measured until now."""
        self._from_ms = time.time() * 1000

    def are_complete(self) -> bool:
        self._reader.poll()
        return sum(signal.sampled_at_ms > self._from_ms for signal in self._reader.brokers.values()) >= BROKERS


def _timed(
    image: str, config: Path, command: str, is_ready: Callable[[], bool], signals: _Signals | None = None
) -> float:
    """Returns the seconds from `docker run` until the process is ready."""
    if signals is not None:
        signals.begin()
    began_s = time.monotonic()
    with _container(image, config, command) as container:
        while not is_ready():
            if time.monotonic() > began_s + _WAIT_S_MAX:
                raise SystemExit(
                    f"`rheostat {command}` was not ready in {_WAIT_S_MAX:.0f} s:\n{_docker('logs', container)}"
                )
            threading.Event().wait(0.05)
        return time.monotonic() - began_s


@contextmanager
def _container(image: str, config: Path, command: str) -> Iterator[str]:
    mount = f"{config.parent}:/etc/rheostat:ro"
    container = _docker(
        "run", "--detach", *_HARDENING, "--volume", mount, image, command, "--config", f"/etc/rheostat/{config.name}"
    )
    try:
        yield container
    finally:
        _docker("rm", "--force", "--volumes", container)


def _write_settings(folder: Path, lab: Lab, port: int) -> Path:
    folder.chmod(0o755)  # The user of the container is another one.
    settings = {
        "cluster": "lab",
        "kafka": {"bootstrap_servers": lab.bootstrap_servers},
        "collector": {"endpoints": lab.jmx_urls()},
        "stream": {"checkpoint_dir": "/var/lib/rheostat/checkpoint"},
        "tuner": {"dry_run": True, "rate_bytes_per_s_max": 30_000_000, "http": {"port": port}},
    }
    file = folder / "rheostat.yaml"
    file.write_text(yaml.safe_dump(settings))
    return file


def _has_read_cluster(port: int) -> bool:
    """Returns whether the tuner shows its first cycle; an open port alone does not count."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=1) as answer:
            return json.loads(answer.read())["reassigning_partitions"] is not None
    except OSError:
        return False


def _docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise SystemExit(f"docker {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--image", default="rheostat:dev")
    parsed = parser.parse_args(arguments)
    found = measure(parsed.image)
    rows = (
        ("size, MB", found["size_mb"], SIZE_MB_MAX),
        ("docker run to the tuner's first cycle, longest of 5, s", found["tune_s_max"], TUNE_S_MAX),
        ("docker run to the stream's first signals, longest of 3, s", found["stream_s_max"], STREAM_S_MAX),
    )
    if parsed.json:
        print(json.dumps(found))
    else:
        print(f"{'image':60} {'measured':>10} {'bound':>8}  ratio")
        for name, value, bound in rows:
            print(f"{name:60} {value:10.2f} {bound:8.0f}  {value / bound:.2f}")
    return 0 if all(value <= bound for _, value, bound in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
