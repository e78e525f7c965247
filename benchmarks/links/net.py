"""Brokers behind slow links on one machine: each has a network namespace, one bridge connects them, token buckets limit them.

    root namespace                 <lan>: br0                   <b1> … <bN>, <load>
    controller, rheostat ── veth ──┤
                                   ├── veth, tbf: what goes in ── tbf: what comes out, broker 1
                                   ├── … ── broker N
                                   └── veth ── producers (not limited)

A move delays clients through the queue before a full link, which loopback does not have.

Invariant: everything is removed at the end of the ``with`` block, in reverse order. The bridge has its own namespace, so the
machine's network is not changed: no address except one on a veth, no route, no rule, no sysctl. Where a Docker engine runs, the
frames of a bridge pass iptables, whose FORWARD policy drops them. That applies only to bridges in the root namespace. A killed run
leaves namespaces named after its process; the next run finds, names and removes them.

Vocabulary: out and in are seen from the broker.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import TracebackType

import psutil

from rheostat.errors import SetupError

PREFIX = "rheostat-links-"
LOAD = 0  # The producers' namespace, among those of brokers.
# A bucket of so much of the link, and a queue before it: as long on any link.
_BURST_S, _QUEUE = 0.01, "50ms"
_SUBNETS = [ipaddress.IPv4Network(f"10.213.{n}.0/24") for n in range(77, 100)]
_COMMAND_S_MAX = 20.0
_PROBE_PORT, _PROBES, _PROBE_S = 9_999, 4, 3.0
_DROPS = re.compile(r"dropped (\d+)")
_ABSENT = re.compile(r"No such file or directory|Cannot find device")


@dataclass(frozen=True, slots=True)
class Passed:
    """Bytes since the link was created, with headers, except those of segmentation (about 2 %)."""

    out_bytes: int
    in_bytes: int


@dataclass(slots=True)
class Links:
    """The links; use it as a context manager, as root. They are not limited before ``limit`` is called."""

    brokers: int
    subnet: ipaddress.IPv4Network = field(default_factory=lambda: _free_subnet())
    _undo: ExitStack = field(default_factory=ExitStack)
    _limited: bool = False

    def __enter__(self) -> Links:
        check_machine()
        sweep()
        try:
            self._build()
        except BaseException:
            self._tear_down()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tear_down()

    def _tear_down(self) -> None:
        with _uninterrupted():
            self._undo.close()

    def _build(self) -> None:
        lan, root = _name("lan"), f"rheo{os.getpid()}"
        self._namespace(lan)
        _run("ip", "-n", lan, "link", "add", "br0", "type", "bridge")
        _run("ip", "-n", lan, "link", "set", "br0", "up")
        self._undo.callback(_gone, "link", "ip", "link", "del", root)
        _run("ip", "link", "add", root, "type", "veth", "peer", "name", "root", "netns", lan)
        _run("ip", "-n", lan, "link", "set", "root", "master", "br0", "up")
        _run("ip", "addr", "add", f"{self.host(None)}/{self.subnet.prefixlen}", "dev", root)
        _run("ip", "link", "set", root, "up")
        for node in range(self.brokers + 1):
            own, here = _name(str(node)), f"v{node}"
            self._namespace(own)
            _run("ip", "-n", lan, "link", "add", here, "type", "veth", "peer", "name", "eth0", "netns", own)
            _run("ip", "-n", lan, "link", "set", here, "master", "br0", "up")
            _run("ip", "-n", own, "addr", "add", f"{self.host(node)}/{self.subnet.prefixlen}", "dev", "eth0")
            _run("ip", "-n", own, "link", "set", "lo", "up")
            _run("ip", "-n", own, "link", "set", "eth0", "up")

    def _namespace(self, name: str) -> None:
        # Before it is there: an interrupt may come between any two lines.
        self._undo.callback(_gone, "namespace", "ip", "netns", "del", name)
        _run("ip", "netns", "add", name)

    def host(self, node: int | None) -> str:
        """Returns the address of a broker, of the producers (LOAD), or of the root namespace (None)."""
        return str(self.subnet[1 if node is None else 10 + node])

    def prefix(self, node: int) -> tuple[str, ...]:
        return ("ip", "netns", "exec", _name(str(node)))

    def limit(self, mbit_per_s: float) -> None:
        """Limits the link of every broker, in both directions.

        Raises:
            SetupError: the kernel has no tbf.
        """
        burst_bytes = round(_BURST_S * mbit_per_s * 1e6 / 8)
        shape = ("root", "tbf", "rate", f"{mbit_per_s:g}mbit", "burst", str(burst_bytes), "latency", _QUEUE)
        for namespace, device in self._ends():
            try:
                _run("tc", "-n", namespace, "qdisc", "replace", "dev", device, *shape)
            except SetupError as error:
                raise SetupError(
                    f"{error} If the kernel has no tbf (`modprobe sch_tbf` fails), this benchmark cannot run here."
                ) from error
        self._limited = True

    def unlimit(self) -> None:
        if self._limited:
            for namespace, device in self._ends():
                _run("tc", "-n", namespace, "qdisc", "del", "dev", device, "root")
        self._limited = False

    def _ends(self) -> list[tuple[str, str]]:
        brokers = range(1, self.brokers + 1)
        return [(_name("lan"), f"v{b}") for b in brokers] + [(_name(str(b)), "eth0") for b in brokers]

    def passed(self) -> dict[int, Passed]:
        """Returns the bytes by broker; LOAD stands for the producers."""
        found = json.loads(_run("ip", "-n", _name("lan"), "-j", "-s", "link", "show"))
        return {
            int(link["ifname"][1:]): Passed(link["stats64"]["rx"]["bytes"], link["stats64"]["tx"]["bytes"])
            for link in found
            if re.fullmatch(r"v\d+", link["ifname"])
        }

    def dropped(self, broker: int) -> int:
        """Returns the packets that the full queue of this broker's outbound link has dropped."""
        text = _run("tc", "-n", _name(str(broker)), "-s", "qdisc", "show", "dev", "eth0")
        return sum(int(count) for count in _DROPS.findall(text))

    def capacity_bytes_per_s(self, source: int, target: int) -> float:
        """Returns the payload rate of one TCP connection between two brokers: the best of some tries.

        Other load on the machine can only lower the result. Nothing else should use these links meanwhile.
        """
        return max(self._carried_bytes_per_s(source, target) for _ in range(_PROBES))

    def _carried_bytes_per_s(self, source: int, target: int) -> float:
        address = (self.host(target), str(_PROBE_PORT))
        first = before_others(-15)
        probe = (sys.executable, "-m", "benchmarks.links.probe")
        with subprocess.Popen(
            [*first, *self.prefix(target), *probe, "receive", *address],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as receiver:
            try:
                _run(*first, *self.prefix(source), *probe, "send", *address, str(_PROBE_S))
                told, _ = receiver.communicate(timeout=_COMMAND_S_MAX)
            finally:
                receiver.kill()
        return float(told)


# -- the machine ------------------------------------------------------------------------------------------------------


def check_machine() -> None:
    """Checks that the benchmark can create namespaces.

    Raises:
        SetupError: the user is not root, or iproute2 is missing.
    """
    missing = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
    if missing:
        raise SetupError(
            f"benchmarks.cluster puts brokers behind slow links with iproute2, and {' and '.join(missing)} is not "
            "installed: on Debian apt-get install iproute2."
        )
    if os.geteuid() != 0:
        raise SetupError("benchmarks.cluster makes network namespaces, which only root may: run it with sudo.")


def before_others(autogroup_nice: int) -> tuple[str, ...]:
    """Returns the prefix of a command that gets a high CPU priority; the command needs a session of its own.

    With sched_autogroup (see sched(7)) the kernel shares CPU time between sessions, and nice(1) works within one session only.
    """
    script = f'{{ echo {autogroup_nice} > /proc/self/autogroup; }} 2> /dev/null; exec nice -n {autogroup_nice} "$@"'
    return ("sh", "-c", script, "sh")


def sweep() -> list[str]:
    """Removes the namespaces of killed runs, and returns a line for each. Those of running processes stay."""
    swept = []
    for name in _namespaces():
        if name.startswith(PREFIX) and not psutil.pid_exists(int(name[len(PREFIX) :].split("-")[0])):
            _run("ip", "netns", "del", name)
            swept.append(name)
    if swept:
        print(f"a run that was killed had left {', '.join(swept)}: removed", file=sys.stderr)
    return swept


def _namespaces() -> list[str]:
    found = json.loads(_run("ip", "-j", "netns", "list") or "[]")
    return [str(entry["name"]) for entry in found]


def _name(part: str) -> str:
    return f"{PREFIX}{os.getpid()}-{part}"


def _free_subnet() -> ipaddress.IPv4Network:
    held = [
        ipaddress.IPv4Address(info["local"])
        for link in json.loads(_run("ip", "-4", "-j", "addr"))
        for info in link["addr_info"]
    ]
    for subnet in _SUBNETS:
        if not any(address in subnet for address in held):
            return subnet
    raise SetupError(f"All of {_SUBNETS[0]} to {_SUBNETS[-1]} are in use on this machine.")


def _run(*command: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_COMMAND_S_MAX, check=False, start_new_session=True
    )
    if done.returncode != 0:
        raise SetupError(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def _gone(what: str, *command: str) -> None:
    """Runs one step of the removal; a failure is reported and does not stop the next step."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_S_MAX, check=False)
    if done.returncode != 0 and not _ABSENT.search(done.stderr):
        print(f"the {what} {command[-1]} is left: {done.stderr.strip()}", file=sys.stderr)


@contextmanager
def _uninterrupted(numbers: Sequence[int] = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)) -> Iterator[None]:
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
