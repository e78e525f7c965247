"""A certificate authority for tests, a broker's certificate, and a client certificate for mutual TLS."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True, slots=True)
class Papers:
    """PEM files. ``broker`` has key and certificate in one file, as a broker's keystore needs them."""

    authority: Path
    broker: Path
    our_certificate: Path
    our_key: Path


def papers(folder: Path) -> Papers:
    """Creates certificates for a broker on loopback, valid for two days."""
    _openssl(
        folder, "req", "-x509", *_KEY, "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem"
    )
    _signed(folder, "broker", "subjectAltName=IP:127.0.0.1")
    _signed(folder, "ours", "subjectAltName=DNS:rheostat")
    broker = folder / "broker.both.pem"
    broker.write_text((folder / "broker.key").read_text() + (folder / "broker.pem").read_text())
    return Papers(folder / "ca.pem", broker, folder / "ours.pem", folder / "ours.key")


def _signed(folder: Path, name: str, extension: str) -> None:
    _openssl(folder, "req", *_KEY, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
    (folder / f"{name}.ext").write_text(extension)
    _openssl(
        folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
        "-extfile", f"{name}.ext", "-out", f"{name}.pem",
    )  # fmt: skip


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)
