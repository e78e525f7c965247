"""``python -m rheostat.jvm.pin_digests IVY_XML``: downloads the files that an Ivy file names, and writes their SHA-256 digests.

Run it after you have changed a version in the Ivy file. Ivy compares each file only with the checksum of the same registry, so
compare the changed lines with the publisher's own digests before you commit them.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from rheostat.jvm.artifacts import fetch_jars
from rheostat.jvm.digests import write_digests

if __name__ == "__main__":
    ivy_xml = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as work:
        write_digests(ivy_xml, fetch_jars(ivy_xml, Path(work), print))
