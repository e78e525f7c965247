"""Looks up known vulnerabilities of the locked Python packages with pip-audit.

    python -m dist_build.audit [LOCK]

pip-audit succeeds also if the database knows none of the packages, as with a mirror that serves no vulnerability data. This program
tells the two apart. Exit codes: 0 no known vulnerability, 1 at least one, 3 the database does not answer for all packages.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from dist_build.components import LOCK

AUDITED, VULNERABLE, NOT_REACHED = 0, 1, 3
_AUDIT_S_MAX = 300
_NAMES_MAX = 5


def evaluate(code: int, output: str, errors: str) -> tuple[int, str]:
    """Returns the exit code and the message for a run of pip-audit.

    Args:
        code: its exit code; output: its report as JSON; errors: its messages.
    """
    try:
        packages: list[dict[str, Any]] = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = errors.strip().splitlines()[-1:] or [f"pip-audit ended with code {code}"]
        return NOT_REACHED, f"Not audited: the database of vulnerabilities does not answer ({last[0].strip()})."
    found = [
        f"{package['name']} {package['version']}: {vulnerability['id']}"
        f" (corrected in {', '.join(vulnerability['fix_versions']) or 'no version'})"
        for package in packages
        for vulnerability in package.get("vulns", ())
    ]
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    if found:
        return VULNERABLE, "\n".join(found)
    if skipped or not packages:
        names = ", ".join(skipped[:_NAMES_MAX]) + (" …" if len(skipped) > _NAMES_MAX else "")
        return NOT_REACHED, (
            f"Not audited: the database has no answer for {len(skipped)} of {len(packages)} packages ({names}). Run this where "
            "https://pypi.org is reached directly, or set another service, as pip-audit's documentation describes."
        )
    return AUDITED, f"{len(packages)} packages, no known vulnerability"


def main(arguments: Sequence[str]) -> int:
    lock = arguments[0] if arguments else str(LOCK)
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        "--requirement",
        lock,
        "--require-hashes",
        "--disable-pip",
        "--format",
        "json",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_AUDIT_S_MAX, check=False)
        code, message = evaluate(done.returncode, done.stdout, done.stderr)
    except subprocess.TimeoutExpired:
        code, message = (
            NOT_REACHED,
            f"Not audited: the database of vulnerabilities did not answer within {_AUDIT_S_MAX} s.",
        )
    (sys.stdout if code == AUDITED else sys.stderr).write(f"{message}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
