"""Writes the generated files of deploy/.

python -m deploy_build            write them
python -m deploy_build --check    exit 1 if a committed file differs from what this program would write
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from deploy_build import systemd
from deploy_build.chart import chart_files
from deploy_build.helm import helm_is_here
from deploy_build.kustomize import kustomize_files

ROOT = Path(__file__).parents[1]


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Writes or checks the files; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy_build", description="Writes the generated files of deploy/."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is not current")
    is_check = parser.parse_args(arguments).check
    outdated = bring_up_to_date({**systemd.render_units(), **chart_files()}, root, is_check=is_check)
    # Helm reads the chart from the disk, so its files have to be current before.
    if helm_is_here():
        outdated += bring_up_to_date(kustomize_files(), root, is_check=is_check)
    else:
        sys.stderr.write(
            "Helm's engine has no wheel for this machine, so deploy/kubernetes is neither written nor checked\n"
        )
    return int(is_check and bool(outdated))


def bring_up_to_date(wanted: Mapping[Path, str], root: Path, *, is_check: bool) -> list[Path]:
    """Writes the files that differ, or only names them if ``is_check``; returns their paths."""
    outdated = []
    for file, text in wanted.items():
        path = root / file
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        outdated.append(path)
        if is_check:
            sys.stderr.write(f"{path} is not current: run `make format` and commit the result\n")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {path}\n")
    return outdated


if __name__ == "__main__":
    sys.exit(main())
