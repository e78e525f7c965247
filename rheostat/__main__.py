"""``python -m rheostat``, which is how the supervisor starts its parts."""

from rheostat.cli import main

main()
