"""Measures the collector with 100 and 1,000 nodes: duration and CPU time of a round, and memory.

A real collector process (`rheostat collect`) reads a small real cluster. Only the HTTP endpoints are fake: one server returns for
each node the recorded response of a real broker that follows 400 partitions, as in a cluster of a thousand brokers with 200,000
partitions and three replicas each. A bare client that fetches the same bodies with the same concurrency is the lower bound.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import multiprocessing
import sys
import tempfile
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import yaml
from kafka.admin import NewTopic

from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import HOST, free_ports
from rheostat.run.process import spawn, stop
from streaming.collector.exposition import parse

NODES = (100, 1_000)
FOLLOWED = 400
AT_ONCE = 32
WARM_ROUNDS = 3
ROUNDS = 8
INTERVAL_S = 5.0
# At 1,000 nodes: a round has to fit its interval, and one core is what a small process may take of a shared machine.
ROUND_S_MAX = 5.0
CORE_MAX = 0.7
RSS_MB_MAX = 200.0
_READY_S_MAX = 60.0


def measure() -> dict[str, Any]:
    with Lab(LabSpec(brokers=2)) as lab, tempfile.TemporaryDirectory() as folder:
        body = _recorded(lab)
        began = time.perf_counter()
        for _ in range(50):
            parse(body.decode())
        parse_ms = (time.perf_counter() - began) / 50 * 1000
        port = free_ports(1)[0]
        agents = multiprocessing.get_context("spawn").Process(
            target=_serve, args=(port, gzip.compress(body)), daemon=True
        )
        agents.start()
        try:
            _until_open(port)
            found = [_one(lab, Path(folder), port, nodes) for nodes in NODES]
        finally:
            agents.kill()
            agents.join(timeout=10)
    return {
        "body_lines": body.count(b"\n"),
        "body_bytes": len(body),
        "parse_ms": round(parse_ms, 2),
        "round_s_bound": ROUND_S_MAX,
        "core_bound": CORE_MAX,
        "rss_mb_bound": RSS_MB_MAX,
        "nodes": found,
    }


def _recorded(lab: Lab) -> bytes:
    """Returns the response of broker 2, once it follows its partitions."""
    with lab.admin() as admin:
        leaders = {p: [1, 2] for p in range(FOLLOWED)}
        admin.create_topics(
            [NewTopic("followed", num_partitions=-1, replication_factor=-1, replica_assignments=leaders)]
        )
    until_s = time.monotonic() + _READY_S_MAX
    while time.monotonic() < until_s:
        with urllib.request.urlopen(lab.nodes[2].jmx_url, timeout=10) as answer:
            body: bytes = answer.read()
        if len(parse(body.decode()).lags) >= FOLLOWED:
            return body
        threading.Event().wait(0.5)
    raise SystemExit(f"broker 2 did not come to follow {FOLLOWED} partitions")


def _serve(port: int, packed: bytes) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\nConnection: close\r\n\r\n"
    answer = head.encode() + packed

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(one, HOST, port, backlog=1024)
        await server.serve_forever()

    asyncio.run(serve())


def _until_open(port: int) -> None:
    until_s = time.monotonic() + _READY_S_MAX
    while time.monotonic() < until_s:
        try:
            _fetch(f"http://{HOST}:{port}/0")
            return
        except OSError:
            threading.Event().wait(0.1)
    raise SystemExit("the agents' stand-in did not begin to listen")


def _fetch(url: str) -> int:
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept-Encoding": "gzip"}), timeout=10) as answer:
        return len(answer.read())


def _one(lab: Lab, folder: Path, port: int, nodes: int) -> dict[str, Any]:
    urls = {10_000 + i: f"http://{HOST}:{port}/{i}" for i in range(nodes)}
    http = free_ports(1)[0]
    config = yaml.safe_load(lab_config(lab))
    config["collector"] = {
        "endpoints": urls,
        "interval_s": INTERVAL_S,
        "scrapes_at_once": AT_ONCE,
        "http": {"port": http},
    }
    file = folder / f"{nodes}.yaml"
    file.write_text(yaml.safe_dump(config))
    process = spawn([sys.executable, "-m", "rheostat", "collect", "--config", str(file)], log=folder / f"{nodes}.log")
    try:
        watched = psutil.Process(process.pid)
        until_s = time.monotonic() + _READY_S_MAX + (WARM_ROUNDS + ROUNDS) * 2 * INTERVAL_S
        _await_rounds(http, WARM_ROUNDS, until_s)
        before, cpu_before = _own(http), _cpu_s(watched)
        round_s = []
        for number in range(int(before["rounds_total"]) + 1, int(before["rounds_total"]) + ROUNDS + 1):
            round_s.append(_await_rounds(http, number, until_s)["round_seconds"])
        after, cpu_after = _own(http), _cpu_s(watched)
        rss_mb = watched.memory_info().rss / 1e6
    finally:
        stop(process, grace_s=10)
    rounds = after["rounds_total"] - before["rounds_total"]
    bare_s, bare_cpu_s = _bare(list(urls.values()))
    cpu_s = (cpu_after - cpu_before) / rounds
    return {
        "nodes": nodes,
        "round_s_median": round(sorted(round_s)[len(round_s) // 2], 2),
        "round_s_max": round(max(round_s), 2),
        "cpu_s_per_round": round(cpu_s, 2),
        "core": round(cpu_s / INTERVAL_S, 2),
        "rss_mb": round(rss_mb, 1),
        "late_rounds": int(after["late_rounds_total"]),
        "records_per_round": round((after["records_total"] - before["records_total"]) / rounds, 1),
        "bare_fetch_s": round(bare_s, 2),
        "bare_fetch_cpu_s": round(bare_cpu_s, 2),
        "cpu_ratio_to_bare": round(cpu_s / bare_cpu_s, 2),
    }


def _await_rounds(http: int, rounds: int, until_s: float) -> dict[str, float]:
    """Returns the collector's own metrics after ``rounds`` rounds have begun, so that the previous one has ended."""
    while time.monotonic() < until_s:
        try:
            found = _own(http)
            if found["rounds_total"] >= rounds:
                return found
        except OSError:
            pass  # Not listening yet; asked again until the deadline.
        threading.Event().wait(0.2)
    raise SystemExit(f"the collector did not begin round {rounds} in time")


def _own(http: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://{HOST}:{http}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    prefix = "rheostat_collector_"
    parts = [line.rsplit(" ", 1) for line in lines if line.startswith(prefix) and 'node="' not in line]
    return {name.partition("{")[0].removeprefix(prefix): float(value) for name, value in parts if "le=" not in name}


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _bare(urls: list[str]) -> tuple[float, float]:
    """Returns seconds and CPU seconds for fetching all bodies once."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        began_s, cpu_s = time.perf_counter(), time.process_time()
        for _ in pool.map(_fetch, urls):
            pass
        return time.perf_counter() - began_s, time.process_time() - cpu_s


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args(arguments).json
    found = measure()
    most = found["nodes"][-1]
    if as_json:
        print(json.dumps(found))
    else:
        print(f"collector; an answer has {found['body_lines']} lines and takes {found['parse_ms']} ms to read")
        print(
            f"{'nodes':>6} {'round s':>8} {'max':>6} {'core':>6} {'RSS MB':>8} {'late':>5} {'bare fetch s':>13} {'CPU ÷ bare':>11}"
        )
        for one in found["nodes"]:
            print(
                f"{one['nodes']:6d} {one['round_s_median']:8.2f} {one['round_s_max']:6.2f} {one['core']:6.2f} "
                f"{one['rss_mb']:8.1f} {one['late_rounds']:5d} {one['bare_fetch_s']:13.2f} {one['cpu_ratio_to_bare']:11.2f}"
            )
        print(f"bounds {ROUND_S_MAX:7.1f} {'':6} {CORE_MAX:6.2f} {RSS_MB_MAX:8.1f}")
    well = most["round_s_max"] <= ROUND_S_MAX and most["core"] <= CORE_MAX and most["rss_mb"] <= RSS_MB_MAX
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
