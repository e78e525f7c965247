"""Adjusts Kafka's replication throttles and quotas; the program is rheostat.cli.

The wheel has the packages streaming, tuner and learning in the folder bundled/ of this package, because other distributions install
packages of the same names (mosaicml-streaming installs `streaming`). Python runs this file before any other module of rheostat. So
this file puts the folder first on the import path of rheostat's processes, and only of these. A source checkout has no such folder.
"""

import sys
from pathlib import Path

_BUNDLED = Path(__file__).with_name("bundled")

if _BUNDLED.is_dir():
    sys.path.insert(0, str(_BUNDLED))
