"""Labs with tiered topics (KIP-405). Their remote storage is a folder that all brokers of the lab share."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kafka.admin import NewTopic
from lab_parts import until

from rheostat.jvm.artifacts import resolve_artifacts
from rheostat.jvm.java import JAVA_MAJOR_MIN, find_java
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from streaming.shared.kafka.cluster import ClusterClient, ClusterError

_PLUGIN = "FolderRemoteStorage"
# A fetch of Kafka's 1 MiB ends within a batch, and the follower drops the cut batch. Batches of 800 kB would cost a quarter of the
# throttle, which no estimate can know.
_AS_FAST_AS_POSSIBLE = ("batch.size=100000", "linger.ms=5")
RECORD_BYTES = 10_000


@dataclass(frozen=True, slots=True)
class RemoteStorage:
    """The remote storage of a lab."""

    folder: Path

    @classmethod
    def compile(cls, folder: Path) -> RemoteStorage:
        """Compiles the plugin of the brokers into the folder."""
        storage = cls(folder)
        storage._segments.mkdir(parents=True)
        artifacts = resolve_artifacts()
        command = [
            str(find_java().executable), "-jar", str(artifacts.compiler), f"-{JAVA_MAJOR_MIN}", "-proc:none", "-nowarn",
            "-cp", artifacts.kafka_class_path, "-d", str(storage._classes), str(Path(__file__).with_name(f"{_PLUGIN}.java")),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return storage

    @property
    def _segments(self) -> Path:
        return self.folder / "segments"

    @property
    def _classes(self) -> Path:
        return self.folder / "classes"

    def lab_spec(self, kafka: str | None = None) -> LabSpec:
        """Returns a lab of two brokers that use this storage; they upload and remove segments within a second or two."""
        broker_settings = {
            "remote.log.storage.manager.class.name": _PLUGIN,
            "remote.log.storage.manager.class.path": f"{self._classes}/",
            "remote.log.storage.manager.impl.prefix": "rsm.config.",
            "rsm.config.dir": str(self._segments),
            "remote.log.metadata.manager.impl.prefix": "rlmm.config.",
            "remote.log.metadata.manager.listener.name": "PLAINTEXT",
            "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
            "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
            "rlmm.config.remote.log.metadata.topic.min.isr": "1",
            "remote.log.manager.task.interval.ms": "500",
            "log.initial.task.delay.ms": "500",
            "log.retention.check.interval.ms": "1000",
        }
        # The controller checks that remote storage is on before it accepts a tiered topic.
        settings = {"remote.log.storage.system.enable": "true"}
        return LabSpec(brokers=2, settings=settings, broker_settings=broker_settings, kafka=kafka)

    def take_away(self) -> None:
        """Lets every call of the brokers fail until ``bring_back``."""
        (self._segments / "away").touch()

    def bring_back(self) -> None:
        (self._segments / "away").unlink()


def make_tiered_topic(
    lab: Lab, client: ClusterClient, name: str, *, total_bytes: int, local_bytes: int, segment_bytes: int
) -> int:
    """Makes a topic with one replica, on broker 1, and returns the size of its local log once the rest is only remote."""
    configs = {
        "remote.storage.enable": "true",
        "segment.bytes": str(segment_bytes),
        "local.retention.bytes": str(local_bytes),
    }
    with lab.admin() as admin:
        admin.create_topics([NewTopic(name, replica_assignments={0: [1]}, topic_configs=configs)])
    with ProducerLoad(
        lab.artifacts, lab.bootstrap_servers, name, rate_bytes_per_s=None, record_bytes=RECORD_BYTES, total_bytes=total_bytes,
        properties=_AS_FAST_AS_POSSIBLE,
    ) as load:  # fmt: skip
        load.wait(240)

    def only_local() -> int:
        size = local_size(client, 1, name)
        return size if size <= local_bytes + segment_bytes else 0

    return until(only_local, 120, f"the brokers have removed the uploaded segments of {name}", every_s=0.5)


def local_size(client: ClusterClient, broker: int, topic: str) -> int:
    """Returns the size of the replica's local log; 0: the broker has no such replica."""
    sizes = client.log_sizes([broker], [(topic, 0)])[broker]
    assert not isinstance(sizes, ClusterError), sizes
    return sizes.get((topic, 0), 0)


def lacking_bytes(client: ClusterClient, topic: str, follower: int, *, skips_uploaded: bool = False) -> int:
    """Returns the bytes of the records that the follower of leader 1 has still to copy.

    Args:
        skips_uploaded: whether the follower begins after the records that are uploaded (KIP-1023).
    """
    key = (topic, 0)
    own = _offsets(client.replica_end_offsets({follower: [key]}), follower).get(key)
    read_first = client.pending_upload_offsets if skips_uploaded else client.local_start_offsets
    first = _offsets(read_first({1: [key]}), 1)[key]
    end = _offsets(client.replica_end_offsets({1: [key]}), 1)[key]
    return (end - (own or first)) * RECORD_BYTES


def _offsets(
    answers: Mapping[int, Mapping[tuple[str, int], int] | ClusterError], broker: int
) -> Mapping[tuple[str, int], int]:
    answer = answers[broker]
    assert not isinstance(answer, ClusterError), answer
    return answer
