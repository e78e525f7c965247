"""Adjusts Kafka's replication throttles and quotas; the program is rheostat.cli.

The wheel has the packages streaming, tuner and learning in the folder bundled/ of this package, because other distributions install
packages of the same names (mosaicml-streaming installs `streaming`). Python runs this file before any other module of rheostat, so
the folder comes first on the path of each process of rheostat, and of no other program. A source checkout has no such folder.
"""

import sys
from pathlib import Path

_BUNDLED = Path(__file__).with_name("bundled")

if _BUNDLED.is_dir():
    sys.path.insert(0, str(_BUNDLED))
