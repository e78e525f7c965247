"""The Dockerfile copies a few source files to fetch the JVM artifacts: everything they import must be among them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_image_stage_copies_every_file_needed_for_artifacts(tmp_path: Path) -> None:
    stages = re.split(r"^FROM .* AS (\w+)$", (ROOT / "Dockerfile").read_text(), flags=re.M)
    stage = stages[stages.index("artifacts") + 1]
    copied = [line.split()[1:] for line in stage.splitlines() if line.startswith("COPY ")]
    assert copied
    for *sources, target in copied:
        folder = tmp_path / target.removeprefix("/src/")
        folder.mkdir(parents=True)
        for source in sources:
            shutil.copy(ROOT / source, folder)
    wanted = re.search(r'"(from rheostat\.\S+ import \w+);', stage)
    assert wanted is not None

    # -S: an editable install's .pth file would find in the checkout what the image has not got.
    prints = "import streaming, rheostat; print(streaming.__file__, rheostat.__file__)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"{wanted[1]}; {prints}"],
        cwd=tmp_path, env={"PATH": os.environ["PATH"], "PYTHONPATH": sysconfig.get_path("purelib")},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "conf" / "jvm").iterdir()} == {"ivy.xml", "ivy.sha256"}
    assert all(Path(file).is_relative_to(tmp_path) for file in done.stdout.split())
