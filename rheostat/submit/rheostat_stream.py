"""Runs ``rheostat stream`` in a driver that spark-submit has started. `rheostat stream --spark-submit` prints the command."""

import sys

from rheostat.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["stream"]
    main()
