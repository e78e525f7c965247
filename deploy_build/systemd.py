"""Renders the units of deploy/systemd/: one for `rheostat run`, and one for each part as a service of its own.

systemd has no way to share directives between units with different names, so this module writes five whole units.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from pydantic import BaseModel, SecretStr

from rheostat.config.settings import Settings, inner_model

FOLDER = Path("deploy") / "systemd"
_PROGRAM = "/opt/rheostat/bin/rheostat"
_CONFIG = "/etc/rheostat/rheostat.yaml"


def _secret_keys(model: type[BaseModel], section: str = "") -> Iterator[str]:
    """Yields the keys of all secrets; without those in lists, which have no key."""
    for name, field in model.model_fields.items():
        inner = inner_model(field.annotation)
        if inner is not None:
            yield from _secret_keys(inner, f"{section}{name}.")
        elif SecretStr in (field.annotation, *get_args(field.annotation)):
            yield f"{section}{name}"


# Secrets that an operator may put into /etc/credstore, by key. Each part checks the whole settings file, so each gets all.
CREDENTIALS = tuple(_secret_keys(Settings))


@dataclass(frozen=True, slots=True)
class Unit:
    """The properties in which a unit differs from the others.

    Attributes:
        command: of the program, with its options.
        ready: when systemd considers the unit started.
        java: a JVM runs in this unit. Its compiler writes code into memory and executes it.
        children: the unit restarts its processes itself.
    """

    name: str
    description: str
    command: str
    ready: str
    java: bool = False
    children: bool = False


UNITS = (
    Unit(
        "rheostat",
        "rheostat: collector, stream, tuner and learn",
        "run",
        "collector, stream and tuner are ready",
        java=True,
        children=True,
    ),
    Unit(
        "rheostat-collect",
        "rheostat collector: reads the metrics of the brokers",
        "collect --wait-for-cluster",
        "the first round of measurements has ended, or the collector stands by for another one",
    ),
    Unit(
        "rheostat-stream",
        "rheostat stream: computes signals with Spark",
        "stream --wait-for-cluster",
        "the query runs, or the stream stands by for another one and its session is warm",
        java=True,
    ),
    Unit(
        "rheostat-tune",
        "rheostat tuner: sets throttles and quotas",
        "tune --wait-for-cluster",
        "the first cycle has ended, or the tuner stands by for another one",
    ),
    Unit(
        "rheostat-learn",
        "rheostat learn: learns from the history",
        "learn --wait-for-cluster",
        "all of the history is learned",
    ),
)


def render_unit(unit: Unit) -> str:
    """Returns the text of the unit's file."""
    return "\n".join(
        [
            "# Made by `make format` from deploy_build/systemd.py. To change a directive on one machine: systemctl edit "
            f"{unit.name}",
            "[Unit]",
            f"Description={unit.description}",
            "Wants=network-online.target",
            "After=network-online.target",
            "# A cluster may be away for longer than any limit of starts.",
            "StartLimitIntervalSec=0",
            "",
            "[Service]",
            *_life(unit),
            "",
            *_files(unit),
            "",
            *_hardening(unit),
            "",
            "[Install]",
            "WantedBy=multi-user.target",
            "",
        ]
    )


def _life(unit: Unit) -> list[str]:
    lines = [
        "Type=notify",
        f"# Ready: {unit.ready}.",
        f"ExecStart={_PROGRAM} {unit.command} --config {_CONFIG}",
        "ExecReload=/bin/kill -HUP $MAINPID",
        "# While the start goes on, the process extends this limit.",
        "TimeoutStartSec=2min",
        "TimeoutStopSec=30s",
        "# The work of the process sends the pings. If they stop, systemd ends the process, and its threads are logged.",
        "WatchdogSec=90s",
        "Environment=PYTHONFAULTHANDLER=1",
        "LimitCORE=0",
        "KillMode=mixed",
        "Restart=always",
        "RestartSec=5s",
        "# 2: the settings cannot be used. A restart does not help.",
        "RestartPreventExitStatus=2",
    ]
    if unit.children:
        lines += ["# If the kernel kills a part for lack of memory, only this part is restarted.", "OOMPolicy=continue"]
    return lines


def _files(unit: Unit) -> list[str]:
    return [
        "DynamicUser=yes",
        "User=rheostat",
        "StateDirectory=rheostat",
        "CacheDirectory=rheostat",
        "Environment=RHEOSTAT_STATE_DIR=%S/rheostat RHEOSTAT_CACHE_DIR=%C/rheostat",
        f"EnvironmentFile=-/etc/rheostat/{unit.name}.env",
        f"# Optional secrets, as files that only root can read: /etc/credstore/{unit.name}.KEY. See systemd-creds(1).",
        *(f"LoadCredential={key}:{unit.name}.{key}" for key in CREDENTIALS),
        "# One connection for each broker, and for each agent.",
        "LimitNOFILE=65536",
    ]


def _hardening(unit: Unit) -> list[str]:
    lines = [
        "UMask=0077",
        "CapabilityBoundingSet=",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "ProtectHome=yes",
        "PrivateTmp=yes",
        "PrivateDevices=yes",
        "DevicePolicy=closed",
        "PrivateUsers=yes",
        "ProtectHostname=yes",
        "ProtectClock=yes",
        "ProtectKernelTunables=yes",
        "ProtectKernelModules=yes",
        "ProtectKernelLogs=yes",
        "ProtectControlGroups=yes",
        "ProtectProc=invisible",
        "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6",
        "RestrictNamespaces=yes",
        "RestrictRealtime=yes",
        "RestrictSUIDSGID=yes",
        "LockPersonality=yes",
        "RemoveIPC=yes",
        "KeyringMode=private",
        "SystemCallArchitectures=native",
        "SystemCallFilter=@system-service",
        "SystemCallFilter=~@privileged",
        "SystemCallErrorNumber=EPERM",
    ]
    return lines if unit.java else [*lines, "MemoryDenyWriteExecute=yes"]


def render_units() -> dict[Path, str]:
    """Returns the text of each file, by its path in the repository."""
    return {FOLDER / f"{unit.name}.service": render_unit(unit) for unit in UNITS}
