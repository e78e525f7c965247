"""Runs the program as ``python -m rheostat``. The supervisor starts its parts in this way."""

from rheostat.cli import main

main()
