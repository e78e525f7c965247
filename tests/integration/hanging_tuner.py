"""Starts the program as a user does; while a file exists, the tuner's next step of work does not end.

python hanging_tuner.py FILE tune --config rheostat.yaml
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from rheostat.cli import main
from tuner.runtime.throttle.loop import ThrottleController

_LOOKED_FOR_EVERY_S = 0.05


def main_with_hang(file: Path) -> None:
    tick = ThrottleController.tick

    def tick_or_hang(controller: ThrottleController) -> None:
        while file.exists():
            threading.Event().wait(_LOOKED_FOR_EVERY_S)
        tick(controller)

    ThrottleController.tick = tick_or_hang  # type: ignore[method-assign]
    main()


if __name__ == "__main__":
    hang_file = Path(sys.argv.pop(1))
    main_with_hang(hang_file)
