"""A certificate authority for tests, a broker's certificate, and a client certificate for mutual TLS."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True, slots=True)
class Papers:
    """PEM files. Those of a broker have key and certificate in one file, as a broker's keystore needs them."""

    authority: Path
    broker: Path
    our_certificate: Path
    our_key: Path
    expired_broker: Path
    our_expired_certificate: Path
    our_expired_key: Path


def papers(folder: Path) -> Papers:
    """Creates certificates for a broker on loopback and for rheostat, valid for two days, and expired ones."""
    _openssl(
        folder, "req", "-x509", *_KEY, "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem"
    )
    for name, days in (("broker", "2"), ("expired-broker", "-1")):
        _signed(folder, name, "subjectAltName=IP:127.0.0.1", days)
        both = (folder / f"{name}.key").read_text() + (folder / f"{name}.pem").read_text()
        (folder / f"{name}.both.pem").write_text(both)
    for name, days in (("ours", "2"), ("expired", "-1")):
        _signed(folder, name, "subjectAltName=DNS:rheostat", days)
    return Papers(
        authority=folder / "ca.pem",
        broker=folder / "broker.both.pem",
        our_certificate=folder / "ours.pem",
        our_key=folder / "ours.key",
        expired_broker=folder / "expired-broker.both.pem",
        our_expired_certificate=folder / "expired.pem",
        our_expired_key=folder / "expired.key",
    )


def _signed(folder: Path, name: str, extension: str, days: str) -> None:
    _openssl(folder, "req", *_KEY, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
    (folder / f"{name}.ext").write_text(extension)
    _openssl(
        folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", days,
        "-extfile", f"{name}.ext", "-out", f"{name}.pem",
    )  # fmt: skip


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)
