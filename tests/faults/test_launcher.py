"""The launcher kills the tuner at the given point, records every step, and shifts the clock."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Runs the code in another process, because the launcher patches the modules that it loads."""
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(HERE)!r})\n{code}"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_steps_die_at_first_point_not_spared(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    made = "\n".join(f"steps.made({step!r})" for step in ("record turn", "commit turn", "alter", "record turn"))
    code = f"from pathlib import Path\nfrom launcher import Steps\nsteps = Steps(Path({str(trace)!r}), {{}}, Path({str(trace)!r} + '-stops'))\n{made}"

    assert run(code.replace("{}", "None")).returncode == 0
    points = [json.loads(line)["point"] for line in trace.read_text().splitlines()]
    assert points == ["start → record turn", "record turn → commit turn", "commit turn → alter", "alter → record turn"]
    for number, point in enumerate(points):
        trace.unlink()
        assert run(code.replace("{}", repr(points[:number]))).returncode == -signal.SIGKILL
        assert json.loads(trace.read_text().splitlines()[-1])["point"] == point


def test_every_call_that_changes_the_cluster_is_a_step(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
import launcher
launcher.watch_all(launcher.Steps(Path({str(tmp_path / "trace")!r}), None, Path({str(tmp_path / "stops")!r})))
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.kafka.reassignments import ReassignmentClient
from tuner.runtime.throttle.actuator import KafkaThrottles
from tuner.journal.kafka_journal import KafkaJournal
for owner in (ClusterClient, ReassignmentClient, KafkaThrottles, KafkaJournal):
    print(*sorted(name for name, value in vars(owner).items() if hasattr(value, "__wrapped__")))
"""
    cluster, plans, throttles, journal = run(code).stdout.splitlines()
    assert {"alter_reassignments", "elect_preferred"} <= set(plans.split())
    assert {"alter_broker_configs", "alter_topic_configs", "create_topics"} <= set(cluster.split())
    assert "confirm_rates" in throttles.split()
    assert {"_send", "take_over"} <= set(journal.split())


def test_only_known_requests_write() -> None:
    """Each Kafka request that changes the cluster is sent from one known file.

    Three more files send requests for commands only, and one file sends a request with ``validate_only``.
    """
    root = HERE.parents[1]
    files = [*(root / "tuner").rglob("*.py"), *(root / "streaming").rglob("*.py")]
    changing = (
        "AlterConfigsRequest(",
        "CreatePartitionsRequest(",
        "CreateTopicsRequest(",
        "DeleteTopicsRequest(",
        "AlterPartitionReassignmentsRequest(",
        "ElectLeadersRequest(",
    )
    knowing = {f.relative_to(root).as_posix() for f in files if any(word in f.read_text() for word in changing)}
    commands = {
        "streaming/shared/kafka/default_config.py",
        "streaming/shared/kafka/placed_topics.py",
        "streaming/shared/kafka/topic_mutations.py",
    }
    looked_at = "streaming/shared/kafka/controller_ping.py"
    assert knowing == {
        "streaming/shared/kafka/cluster.py",
        "streaming/shared/kafka/reassignments.py",
        looked_at,
        *commands,
    }
    text = (root / looked_at).read_text()
    assert sum(text.count(word) for word in changing) == text.count("validate_only=True") == 1
    assert "[(kafka_names.RESOURCE_TOPIC, self._topic, [])]" in text, "and it names no setting"
    for module in ("kafka.fetchers", "kafka.placed_topics"):
        assert [f for f in (root / "tuner").rglob("*.py") if module in f.read_text()] == []


def test_set_clock_shifts_time_by_the_file_value(tmp_path: Path) -> None:
    file = tmp_path / "clock"
    file.write_text("-3600")
    code = f"""
import time
from pathlib import Path
from launcher import set_clock
set_clock(Path({str(file)!r}))
print(time.time())
"""
    assert abs(float(run(code).stdout) + 3600 - time.time()) < 30
