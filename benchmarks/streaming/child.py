"""Runs the stream processor in its own process; prints one JSON line per batch for the benchmark."""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path

from rheostat.jvm.artifacts import resolve_artifacts
from rheostat.jvm.java import find_java
from rheostat.jvm.kernel import stream_jars
from streaming.runner import ProgressListener, run
from streaming.settings import StreamSettings
from streaming.shared.class_archive import ClassArchive
from streaming.shared.contract import Topics
from streaming.shared.kafka import KafkaSettings
from streaming.shared.part_lease import part_lease
from streaming.sources import feeds


def main(bootstrap_servers: str, prefix: str, settings: str) -> None:
    """Runs the stream; ``settings`` are those of the section ``stream`` as JSON."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    kafka = KafkaSettings(bootstrap_servers=bootstrap_servers)
    topics = Topics.with_prefix(prefix)
    stream = StreamSettings.model_validate_json(settings)
    artifacts = resolve_artifacts()
    jars = stream_jars(artifacts)
    run(
        kafka,
        topics,
        feeds(kafka, topics, stream, cluster="bench", own_interval_s=5.0),
        stream,
        jars,
        stop,
        lambda _: part_lease(kafka, "bench", "stream", topics.signals),
        ProgressListener(progress=lambda progress: print(json.dumps(progress), flush=True)),
        ClassArchive(artifacts.class_archive(find_java(), jars)),
    )


if __name__ == "__main__":
    assert len(sys.argv) == 4, "stream_child BOOTSTRAP PREFIX SETTINGS_JSON"
    Path(json.loads(sys.argv[3])["checkpoint_dir"]).parent.mkdir(parents=True, exist_ok=True)
    main(*sys.argv[1:])
