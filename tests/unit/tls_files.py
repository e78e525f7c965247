"""A self-signed certificate for localhost and its key."""

from __future__ import annotations

import subprocess
from pathlib import Path


def certificate_files(folder: Path, name: str = "certificate") -> tuple[str, str]:
    """Returns the paths of a new certificate and its key."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", key, "-out", certificate, "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    return str(certificate), str(key)
