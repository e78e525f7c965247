"""Writes each Grafana dashboard as a JSON file, named after its uid.

The output depends only on the source: the same source gives the same bytes.

    python -m dashboards.build            write the JSON
    python -m dashboards.build --check    exit 1 when a committed JSON is not what this program would write
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import controller, fetchers, itself, overview, reassignments, replication, week

FOLDER = Path(__file__).parent
# The dashboards in the order in which an operator opens them.
BOARDS: dict[str, Callable[[], Dashboard]] = {
    board.UID: board.board for board in (overview, reassignments, replication, week, controller, fetchers, itself)
}


def render(board: Dashboard) -> str:
    return JSONEncoder(sort_keys=True, indent=2).encode(board) + "\n"


def main(arguments: list[str] | None = None, folder: Path = FOLDER) -> int:
    parser = argparse.ArgumentParser(prog="python -m dashboards.build", description="Writes the Grafana dashboards.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a JSON is not current")
    wants_check = parser.parse_args(arguments).check
    wanted = {folder / f"{uid}.json": render(board()) for uid, board in BOARDS.items()}
    if not wants_check:
        for path, text in wanted.items():
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path}")
        return 0
    faults = [fault for path, text in wanted.items() if (fault := _fault(path, text)) is not None]
    faults += [
        f"{path} is no dashboard of dashboards/build.py" for path in sorted(folder.glob("*.json")) if path not in wanted
    ]
    for fault in faults:
        print(f"{fault}: run `python -m dashboards.build` and commit the result", file=sys.stderr)
    return int(bool(faults))


def _fault(path: Path, wanted: str) -> str | None:
    found = path.read_text(encoding="utf-8") if path.exists() else None
    if found == wanted:
        return None
    return f"{path} is missing" if found is None else f"{path} is not what dashboards/build.py writes"


if __name__ == "__main__":
    sys.exit(main())
