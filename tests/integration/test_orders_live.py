"""pause, resume, override and release on a real cluster, with a running tuner and without one."""

from __future__ import annotations

import json
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from lab_parts import RHEOSTAT, rheostat, running, until, write_records_with_bad_headers
from terminal_kit import terminal

from rheostat.config.settings import load_settings
from rheostat.errors import EXIT_NOT_ACKNOWLEDGED, EXIT_NOT_CONFIRMED
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.keeper import lab_config
from rheostat.lab.node import free_ports
from rheostat.orders.send import read_orders
from rheostat.tuner_presence import read_tuners
from streaming.shared.contract import Side, Topics
from streaming.shared.kafka import producer
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.topics import ensure_topics
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.presence import TunerMode
from tuner.core.throttle_limits import MB
from tuner.journal.kafka_journal import KafkaJournal
from tuner.runtime.throttle.actuator import KafkaThrottles

LAB = LabSpec(brokers=2)
OURS, NOT_OURS, FRESH = (1, Side.LEADER), (1, Side.FOLLOWER), (2, Side.LEADER)
TOPICS = Topics.with_prefix("rheostat")


@pytest.fixture
def config(lab: Lab, tmp_path: Path) -> tuple[Path, int]:
    port = free_ports(1)[0]
    file = tmp_path / "rheostat.yaml"
    file.write_text(lab_config(lab, http={"port": port}))
    return file, port


@pytest.fixture
def throttles(lab: Lab) -> Iterator[KafkaThrottles]:
    with ClusterClient(lab.kafka_settings(), "test") as client:
        ensure_topics(client, TOPICS)
        port = KafkaThrottles(client)
        yield port
        port.write_rates(dict.fromkeys((OURS, NOT_OURS, FRESH)))


def leave_managed_rates(lab: Lab, throttles: KafkaThrottles) -> None:
    """Leaves two managed rates, one of which was 5 MB/s before, and one that is externally owned."""
    standing = {OURS: 20 * MB, NOT_OURS: 7 * MB, FRESH: 30 * MB}
    assert set(throttles.write_rates(standing).values()) == {None}
    assert set(throttles.confirm_rates(standing).values()) == {None}
    made = producer(lab.kafka_settings(), "test-journal", linger_ms=0)
    journal = KafkaJournal(made, TOPICS.journal, "lab")
    owned = {OURS: OwnedRate(5 * MB, 20 * MB, (20 * MB,)), FRESH: OwnedRate(None, 30 * MB, (30 * MB,))}
    journal.write(memory=Memory(owned=owned))
    journal.close()


def why(port: int) -> list[str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=2) as got:
            return [d["text"] for d in json.loads(got.read())["last_decisions"]]
    except (urllib.error.URLError, OSError):
        return []


def test_release_without_tuner_restores_earlier_settings(
    lab: Lab, config: tuple[Path, int], throttles: KafkaThrottles
) -> None:
    leave_managed_rates(lab, throttles)
    done = rheostat("release", "--yes", "--config", config[0], timeout_s=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Released: all settings that rheostat had changed are restored.")
    assert throttles.read_rates([OURS, NOT_OURS, FRESH]) == {OURS: 5 * MB, NOT_OURS: 7 * MB, FRESH: None}


def test_second_cluster_name_waits_for_release_of_the_first(
    lab: Lab, config: tuple[Path, int], throttles: KafkaThrottles
) -> None:
    """A tuner with a changed `cluster` setting has another lease, another producer epoch and no memory."""
    leave_managed_rates(lab, throttles)
    file, port = config
    renamed = file.with_name("renamed.yaml")
    settings = yaml.safe_load(file.read_text())
    renamed.write_text(yaml.safe_dump(settings | {"cluster": "renamed"}))
    with running(*RHEOSTAT, "tune", "--config", renamed, log=renamed.with_suffix(".log")):
        until(
            lambda: "under the cluster name 'lab' rheostat still manages 2 throttles" in not_ready(port),
            40,
            "it says why it waits",
        )
        refused = rheostat("release", "--config", renamed)
        assert refused.returncode == 2
        assert "'lab' has 2 throttles" in refused.stderr
        assert "give `cluster: lab` in the settings" in refused.stderr
        paused = rheostat("pause", "--config", renamed)
        assert paused.returncode == EXIT_NOT_ACKNOWLEDGED
        assert "'lab' has 2 throttles" in paused.stdout, "it is not refused, and says why nobody heeds it"
        named = rheostat("doctor", "--config", renamed)
        assert "set cluster: lab, or run `rheostat release` once with that name" in named.stdout
        resumed = rheostat("resume", "--config", renamed)
        assert resumed.returncode == EXIT_NOT_ACKNOWLEDGED
        assert throttles.read_rates([OURS, FRESH]) == {OURS: 20 * MB, FRESH: 30 * MB}
        elsewhere = file.with_name("elsewhere.yaml")
        settings["tuner"]["http"]["port"] = 0
        elsewhere.write_text(yaml.safe_dump(settings))
        done = rheostat("release", "--yes", "--config", elsewhere, timeout_s=120)
        assert done.returncode == 0, done.stderr
        assert throttles.read_rates([OURS, NOT_OURS, FRESH]) == {OURS: 5 * MB, NOT_OURS: 7 * MB, FRESH: None}
        until(lambda: "'lab'" not in not_ready(port), 90, "then it acts")
        with running(*RHEOSTAT, "tune", "--config", elsewhere, log=elsewhere.with_suffix(".log")):
            until(
                lambda: (
                    "already runs on this Kafka cluster as cluster 'renamed'"
                    in elsewhere.with_suffix(".log").read_text()
                ),
                90,
                "a second one stands by",
            )


def not_ready(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as got:
            return str(got.read())
    except urllib.error.HTTPError as error:
        return error.read().decode()
    except (urllib.error.URLError, OSError):
        return "cluster 'lab' or not, nobody answers"


def test_running_tuners_report_their_presence_until_they_end(lab: Lab, config: tuple[Path, int]) -> None:
    acts, settings = config[0], load_settings(config[0], {})
    body = yaml.safe_load(acts.read_text())
    del body["tuner"]["dry_run"]  # Without it a tuner does not act.
    body["tuner"] |= {"rate_bytes_per_s_max": 7 * MB, "http": {"port": 0}}
    looks = acts.with_name("dry.yaml")
    looks.write_text(yaml.safe_dump(body))

    def modes() -> list[TunerMode]:
        return [tuner.mode for tuner in read_tuners(settings, round(time.time() * 1000))]

    def status() -> str:
        return rheostat("status", "--config", acts).stdout.splitlines()[0]

    with running(*RHEOSTAT, "tune", "--config", acts, log=acts.with_suffix(".log")) as first:
        until(lambda: modes() == [TunerMode.ACTIVE], 40, "the tuner reports that it acts")
        with running(*RHEOSTAT, "tune", "--config", looks, log=looks.with_suffix(".log")) as second:
            until(lambda: modes() == [TunerMode.ACTIVE, TunerMode.DRY_RUN], 40, "the dry run reports itself, too")
            active, dry = read_tuners(settings, round(time.time() * 1000))
            assert (active.rate_bytes_per_s_max, dry.rate_bytes_per_s_max) == (
                settings.tuner.rate_bytes_per_s_max,
                7 * MB,
            )
            assert active.waits_for
            assert status().startswith(f"Tuner: active on {active.holder} since ")
            first_line = second.said().splitlines()[0]
            assert "because tuner.dry_run is not in the settings. To let it act, write dry_run: false" in first_line
            assert "The tuner acts once it has the lease" in first.said().splitlines()[0]
            second.end(signal.SIGTERM)
            until(lambda: modes() == [TunerMode.ACTIVE], 10, "the dry run has reported its end")
        first.end(signal.SIGTERM)
        until(lambda: modes() == [], 10, "the tuner has reported its end")
        assert status().startswith("Tuner: none runs.")


def test_running_tuner_pauses_resumes_and_releases(
    lab: Lab, config: tuple[Path, int], throttles: KafkaThrottles
) -> None:
    file, port = config
    alone = rheostat("pause", "--config", file)
    assert alone.returncode == EXIT_NOT_ACKNOWLEDGED
    assert alone.stdout.startswith("The pause is recorded. No tuner has acknowledged the order")
    for look in (("status",), ("status", "--watch", "--duration", "1")):
        shown = rheostat(*look, "--config", file).stdout
        assert "Paused by" in shown, (look, shown)
    leave_managed_rates(lab, throttles)
    read_by_tuner = (TOPICS.signals, TOPICS.orders, TOPICS.journal)
    write_records_with_bad_headers(lab.kafka_settings(), read_by_tuner)
    with running(*RHEOSTAT, "tune", "--config", file, log=file.with_suffix(".log")) as tune:
        until(lambda: any(text.startswith("paused by") for text in why(port)), 40, "it begins with the pause")
        write_records_with_bad_headers(lab.kafka_settings(), read_by_tuner)
        assert rheostat("status", "--config", file).returncode == 0
        checked = rheostat("journal", "check", "--config", file)
        assert checked.returncode == 0, checked.stdout
        # Nothing moves, so a tuner that is not paused would end what it finds of its own.
        assert throttles.read_rates([OURS]) == {OURS: 20 * MB}
        paused = rheostat("pause", "--config", file)
        assert (
            paused.stdout == "Paused: all settings stay as they are, also when a move ends, until `rheostat resume`.\n"
        )

        released = rheostat("release", "--yes", "--config", file, timeout_s=120)
        assert released.returncode == 0, released.stderr
        assert throttles.read_rates([OURS, NOT_OURS, FRESH]) == {OURS: 5 * MB, NOT_OURS: 7 * MB, FRESH: None}
        until(lambda: any(text.startswith("released by") for text in why(port)), 20, "it says so")
        resumed = rheostat("resume", "--config", file)
        assert (resumed.returncode, resumed.stdout) == (0, "Resumed.\n")
        assert tune.end(signal.SIGTERM) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--broker", "1"), "give either --throttle, the throttle to set, or --clear"),
        (("--broker", "1", "--throttle", "5GB/s"), "--throttle 5.00 GB/s is above tuner.rate_bytes_per_s_max"),
        (("--broker", "1", "--throttle", "0"), "expected more than 0"),
        (("--broker", "1", "--throttle", "0.4B/s"), "--throttle: expected at least 1 B/s"),
        (("--broker", "77", "--throttle", "5MB/s"), "--broker 77 is not alive; alive are 1, 2"),
        (("--broker", "1", "--throttle", "5MB/s", "--for", "soon"), "expected a time above 0 such as 90s"),
        (
            ("--broker", "1", "--throttle", "5MB/s", "--side", "left"),
            "--side: expected leader or follower, found 'left'",
        ),
    ],
)
def test_invalid_override_is_refused_with_reason(
    config: tuple[Path, int], arguments: tuple[str, ...], said: str
) -> None:
    done = rheostat("override", "--config", config[0], *arguments)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split()), done.stderr


def test_dangerous_orders_require_confirmation(lab: Lab, config: tuple[Path, int], throttles: KafkaThrottles) -> None:
    """Broker 1 has a leader rate of 20 MB/s and a follower rate of 7 MB/s. No tuner runs, so orders are only recorded."""
    leave_managed_rates(lab, throttles)
    file = config[0]

    def ordered() -> int:
        return read_orders(load_settings(file, {})).orders.at_ms

    override = ("override", "--config", file, "--broker", "1", "--for", "90s")
    before = ordered()
    refused = rheostat(*override, "--throttle", "8MB/s")
    assert (refused.returncode, ordered()) == (EXIT_NOT_CONFIRMED, before)
    assert refused.stderr.splitlines() == [
        "For 90 s this override raises:",
        "broker 1 follower throttle: 7.00 MB/s → 8.00 MB/s",
        "This needs a confirmation, and there is no terminal to ask on: give --yes. Nothing was changed.",
    ]
    with terminal(*RHEOSTAT, "release", "--config", file) as shown:
        shown.shows(r"broker 1 leader throttle: 20.0 MB/s → 5.00 MB/s", 30)
        shown.shows(r"broker 2 leader throttle: 30.0 MB/s → no throttle", 5)
        shown.shows(r"Continue\? \[y/N\]", 5)
        shown.press("\n")
        assert (shown.ends(60), ordered()) == (EXIT_NOT_CONFIRMED, before)
    assert throttles.read_rates([OURS, FRESH]) == {OURS: 20 * MB, FRESH: 30 * MB}

    agreed = rheostat(*override, "--throttle", "8MB/s", "--yes")
    assert agreed.returncode == EXIT_NOT_ACKNOWLEDGED
    assert agreed.stdout.startswith("The override is recorded. No tuner has acknowledged the order")
    lowered = rheostat(*override, "--throttle", "6MB/s")
    assert (lowered.returncode, lowered.stderr) == (EXIT_NOT_ACKNOWLEDGED, "")
    cleared = rheostat("override", "--config", file, "--broker", "1", "--clear")
    assert cleared.stdout.startswith("The end of the override is recorded.")
    assert not read_orders(load_settings(file, {})).orders.overrides
