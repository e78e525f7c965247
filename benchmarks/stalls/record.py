"""Records moves on real brokers for ``benchmarks.stall``: ``python -m benchmarks.stalls.record [NAME ...]``.

A lab of three brokers runs one story after another. Each has its own topic, which moves from [1, 2] to [1, 3] under a throttle.
There is one sample a second; ``stalls/watch.py`` takes it.
"""

from __future__ import annotations

import itertools
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from kafka.admin import NewTopic

from benchmarks.stalls.recordings import FOLDER, write
from benchmarks.stalls.watch import Watch
from benchmarks.stalls.world import MB
from rheostat.lab.cluster import Lab, LabSpec
from rheostat.lab.load import ProducerLoad
from rheostat.lab.tools import reassign_partitions
from streaming.shared import kafka_names
from streaming.shared.contract import Side
from streaming.shared.kafka.cluster import ClusterClient
from streaming.shared.throttle_settings import LIST_KEYS, RATE_KEYS

SOURCE, FOLLOWER, TARGET = 1, 2, 3
PARTITIONS = 4
PRELOAD_BYTES = 300 * MB
RECORD_BYTES = 10_000
LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class Story:
    name: str
    kind: str
    lasts_s: float
    write_mb_per_s: float
    throttle_mb_per_s: float
    stall_s: tuple[float, float] | None = None
    sides: tuple[Side, ...] = (Side.LEADER, Side.FOLLOWER)
    acts: tuple[tuple[float, Callable[[Stage], None]], ...] = ()
    first: int = PARTITIONS  # Partitions that move from the start.
    blind_s_max: float = 5.0  # Longer without a look: this machine did something else, so it is no recording of Kafka.


@dataclass(slots=True)
class Stage:
    """The running move, for the actions of a story."""

    lab: Lab
    client: ClusterClient
    story: Story
    stack: ExitStack

    @property
    def topic(self) -> str:
        return self.story.name.replace("_", "-")

    def load(self, mb_per_s: float) -> None:
        self.stack.enter_context(
            ProducerLoad(
                self.lab.artifacts,
                self.lab.bootstrap_servers,
                self.topic,
                rate_bytes_per_s=mb_per_s * MB,
                record_bytes=RECORD_BYTES,
            )
        )

    def rate(self, bytes_per_s: float, sides: Sequence[Side]) -> None:
        rates = {RATE_KEYS[side]: str(round(bytes_per_s)) for side in sides}
        _raise_failed(self.client.alter_broker_configs(dict.fromkeys((SOURCE, FOLLOWER, TARGET), rates)))

    def move(self, partitions: Sequence[int]) -> None:
        target = {(self.topic, p): [SOURCE, TARGET] for p in partitions}
        lists = {
            Side.LEADER: ",".join(f"{p}:{b}" for p in range(PARTITIONS) for b in (SOURCE, FOLLOWER)),
            Side.FOLLOWER: ",".join(f"{p}:{TARGET}" for p in range(PARTITIONS)),
        }
        keys = {LIST_KEYS[side]: lists[side] for side in self.story.sides}
        _raise_failed(self.client.alter_topic_configs({self.topic: keys}))
        reassign_partitions(self.lab.artifacts, self.lab.bootstrap_servers, target, "--execute", "--additional")

    def signal_target(self, number: signal.Signals) -> None:
        process = self.lab.nodes[TARGET].process
        assert process is not None
        process.send_signal(number)


def _to(mb_per_s: float, *sides: Side) -> Callable[[Stage], None]:
    return lambda stage: stage.rate(mb_per_s * MB, sides or stage.story.sides)


BOTH = (Side.LEADER, Side.FOLLOWER)
STORIES = (
    Story("healthy_both_sides", "steady", 65, 1, 5),
    Story("healthy_follower_side", "steady", 65, 1, 4, sides=(Side.FOLLOWER,)),
    Story("healthy_thin", "thin", 65, 1, 3.2),
    Story("cycle_leader_side", "cycle", 70, 1, 5.5, sides=(Side.LEADER,)),
    Story("infeasible_leader_side", "hopeless", 70, 3, 4.5, stall_s=(0, 70), sides=(Side.LEADER,)),
    Story("infeasible_both_sides", "hopeless", 70, 2, 2.5, stall_s=(0, 70)),
    Story("infeasible_follower_side", "hopeless", 65, 2, 1, stall_s=(0, 65), sides=(Side.FOLLOWER,)),
    Story(
        "writes_outgrow_throttle", "hopeless", 95, 1, 4.5, stall_s=(35, 95), acts=((35, lambda stage: stage.load(4)),)
    ),
    Story("throttle_to_nothing", "dead", 90, 1, 4.5, stall_s=(30, 90), acts=((30, _to(1e-6, *BOTH)),)),
    Story("raised_by_hand", "recovering", 115, 3, 4.5, stall_s=(0, 60), acts=((60, _to(12)),)),
    Story("rate_steps", "rate_steps", 90, 1, 4, acts=((30, _to(8)), (60, _to(4)))),
    Story("batch_joins", "batches", 80, 1, 5, acts=((35, lambda stage: stage.move((2, 3))),), first=2),
    Story(
        "target_pauses",
        "hiccups",
        80,
        1,
        5,
        acts=((30, lambda s: s.signal_target(signal.SIGSTOP)), (40, lambda s: s.signal_target(signal.SIGCONT))),
        blind_s_max=15.0,
    ),
    Story(
        "target_stops",
        "stopped",
        70,
        1,
        5,
        acts=((30, lambda s: s.signal_target(signal.SIGKILL)),),
        blind_s_max=math.inf,
    ),
)


def record(lab: Lab, story: Story) -> None:
    with ExitStack() as stack:
        client = stack.enter_context(ClusterClient(lab.kafka_settings(), "stall-record"))
        stage = Stage(lab, client, story, stack)
        with lab.admin() as admin:
            replicas = {p: [SOURCE, FOLLOWER] for p in range(PARTITIONS)}
            admin.create_topics(
                [NewTopic(stage.topic, num_partitions=-1, replication_factor=-1, replica_assignments=replicas)]
            )
        with ProducerLoad(
            lab.artifacts,
            lab.bootstrap_servers,
            stage.topic,
            rate_bytes_per_s=None,
            record_bytes=100_000,
            total_bytes=PRELOAD_BYTES,
            properties=("batch.size=800000", "linger.ms=5"),
        ) as preload:
            preload.wait(60)
        stage.load(story.write_mb_per_s)
        threading.Event().wait(4.0)
        stage.rate(story.throttle_mb_per_s * MB, BOTH)
        stage.move(range(story.first))
        watch = Watch(client, stage.topic, SOURCE, TARGET)
        acts = list(story.acts)
        look_s = watch.began_s
        while (at_s := time.monotonic() - watch.began_s) < story.lasts_s:
            while acts and acts[0][0] <= at_s:
                acts.pop(0)[1](stage)
            if not watch.look():
                break
            look_s = max(look_s + LOOK_S, time.monotonic())
            threading.Event().wait(max(0.0, look_s - time.monotonic()))
        at_s = time.monotonic() - watch.began_s
    seen_s = [tick.at_s for tick in watch.ticks]
    blind_s = max(after - before for before, after in itertools.pairwise([*seen_s, at_s]))
    remain = f"{watch.ticks[-1].remaining_bytes / MB:.0f} MB remain"
    said = f"{len(seen_s)} looks in {at_s:.0f} s, the longest time without one {blind_s:.1f} s, {remain}"
    if blind_s > story.blind_s_max:
        print(f"{story.name}: not kept, record it again: {said}", flush=True)
        return
    onset_s, ends_s = story.stall_s or (None, None)
    label = {
        "kind": story.kind,
        "stall": story.stall_s is not None,
        "onset_s": onset_s,
        "ends_s": ends_s,
        "sides": [str(side) for side in story.sides],
        "write_mb_per_s": story.write_mb_per_s,
        "throttle_mb_per_s": story.throttle_mb_per_s,
    }
    write(FOLDER / f"{story.name}.jsonl", label, watch.ticks)
    print(f"{story.name}: {said}", flush=True)


def _clear(lab: Lab, topic: str) -> None:
    with lab.admin() as admin, ClusterClient(lab.kafka_settings(), "stall-record") as client:
        admin.delete_topics([topic])
        gone: dict[str, str | None] = {kafka_names.LEADER_RATE: None, kafka_names.FOLLOWER_RATE: None}
        client.alter_broker_configs(dict.fromkeys((SOURCE, FOLLOWER, TARGET), gone))
    threading.Event().wait(2.0)


def _raise_failed(answers: object) -> None:
    for failure in answers.values() if isinstance(answers, dict) else ():
        if failure is not None:
            raise failure


def main(arguments: list[str]) -> int:
    known = {story.name: story for story in STORIES}
    unknown = [name for name in arguments if name not in known]
    if unknown:
        print(f"no story {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    wanted = [known[name] for name in arguments] or list(STORIES)
    with Lab(
        LabSpec(brokers=3, settings={"file.delete.delay.ms": "1000", "log.segment.delete.delay.ms": "1000"})
    ) as lab:
        for story in wanted:
            record(lab, story)
            if story is not wanted[-1]:
                _clear(lab, story.name.replace("_", "-"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
