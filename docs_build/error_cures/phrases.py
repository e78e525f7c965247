"""Phrases that several cures use."""

from __future__ import annotations

RIGHTS = "[Permissions](permissions.md) lists the rights of each process"
DOCTOR = "run `rheostat doctor`: it shows whether the connection, a broker or a missing right is the cause"
TOKEN = "make one with `openssl rand -hex 24`; a token has at least 16 characters, and no spaces"
REINSTALL = "reinstall rheostat with its dependencies, as [Install](../how-to/install.md) says"
