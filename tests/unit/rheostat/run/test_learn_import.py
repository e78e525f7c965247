from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_WITHOUT_RIVER = """
import sys
sys.modules["river"] = None
from rheostat.cli import main
sys.argv = ["rheostat", "learn", "--wait-for-cluster", "--config", sys.argv[1]]
main()
"""


def test_learn_without_its_library_names_what_to_do(tmp_path: Path) -> None:
    config = tmp_path / "rheostat.yaml"
    config.write_text(
        "cluster: main\nkafka:\n  bootstrap_servers: 127.0.0.1:1\ntuner:\n  rate_bytes_per_s_max: 50000000\ncollector: {}\nstream: {checkpoint_dir: ./checkpoint}\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", _WITHOUT_RIVER, str(config)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 1
    assert "Install rheostat again, or set learn.enabled: false" in ended.stderr
    assert "Traceback" not in ended.stderr
