"""Storms on the controller: many tenants that create and delete topics, each under its own client-id and at its own rate.

Intuition: what a storm does is seen in how long requests take, and a client that waits for each answer before the next request
hides just that. So requests are due at set times, whatever came of those before, and each is told from when it was due. Set times
of several tenants keep step with each other, and with quotas that let one through every so many seconds: who ``varies`` is due at
any moment of each of his intervals instead, drawn from his name.

A tenant has as many connections as it is given; requests beyond those wait, and are told as late. Kafka's own clients wait for
the time a refusal tells them (KIP-599). A tenant that does not ``honour`` it asks again on a new connection, as the broker reads
nothing from the old one until that time is over; between two tries it waits as Kafka's clients do by default after any other
error: 0.1 s, twice as long each time, at most 1 s.

Vocabulary:
    due     when the tenant wanted the request to begin.
    tries   how often it was sent: refused ones are sent again until all of their topics are through.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.admin import CreateTopicsRequest, DeleteTopicsRequest
from kafka.protocol.parser import KafkaProtocol

from streaming.shared import kafka_names

_READ_BYTES = 65536
_ANSWER_S_MAX = 30.0
# The first that may be refused by a quota: older ones are delayed in silence.
_CREATE_VERSION = 7
_DELETE_VERSION = 6
# retry.backoff.ms and retry.backoff.max.ms
_RETRY_S, _RETRY_S_MAX = 0.1, 1.0


@dataclass(frozen=True, slots=True)
class StormTenant:
    """What one client-id does. Every request creates ``topics_per_request`` topics of ``partitions`` each."""

    client_id: str
    requests_per_s: float
    topics_per_request: int = 1
    partitions: int = 1
    replication_factor: int = 1
    connections: int = 4
    honours: bool = True
    varies: bool = False  # Due at any moment of each interval, instead of at its beginning.
    topics_max: int | None = (
        None  # From then on a request that deletes the oldest topics follows every one that creates.
    )

    def __post_init__(self) -> None:
        if self.requests_per_s <= 0 or min(self.topics_per_request, self.partitions, self.connections) < 1:
            raise ValueError(f"tenant {self.client_id}: rates and counts are above 0")


@dataclass(frozen=True, slots=True)
class Request:
    """What came of one request. Seconds since the storm began."""

    client_id: str
    creates: bool
    due_s: float
    began_s: float
    ended_s: float
    tries: int
    mutations: int  # Partitions created or deleted.
    throttled_s: float  # Of what the refusals told it to wait, the sum.
    failed: str | None = None


def due_times_s(tenant: StormTenant) -> Iterator[float]:
    """When its requests are due, without an end."""
    rng = random.Random(tenant.client_id)
    for number in itertools.count():
        yield (number + (rng.random() if tenant.varies else 0.0)) / tenant.requests_per_s


@dataclass
class Storm:
    """``run`` it with tenants; ``requests`` grows while it runs."""

    servers: Sequence[str]
    requests: list[Request] = field(default_factory=list)
    began_s: float = 0.0
    _ended: threading.Event | None = None

    def run(
        self,
        tenants: Iterable[StormTenant],
        seconds: float,
        ended: threading.Event | None = None,
        *,
        began_s: float | None = None,
    ) -> list[Request]:
        """Blocks until the time is over, or ``ended`` is set, and what was under way has ended; what had not begun by then is
        left out.

        Args:
            began_s: when it is to begin, on the machine's monotonic clock; None: now.
        """
        self._ended = ended
        self.began_s = time.monotonic() if began_s is None else began_s
        asyncio.run(self._blow(list(tenants), seconds))
        return self.requests

    def over(self, seconds: float) -> bool:
        return self.now_s() >= seconds or (self._ended is not None and self._ended.is_set())

    async def _blow(self, tenants: Sequence[StormTenant], seconds: float) -> None:
        async with asyncio.TaskGroup() as group:
            for number, tenant in enumerate(tenants):
                group.create_task(_Caller(self, tenant, number).call(seconds))

    def now_s(self) -> float:
        return time.monotonic() - self.began_s


class _Caller:
    def __init__(self, storm: Storm, tenant: StormTenant, number: int) -> None:
        self._storm = storm
        self._tenant = tenant
        self._names = (f"storm-{tenant.client_id}-{n}" for n in itertools.count())
        self._there: deque[str] = deque()
        self._free: asyncio.Queue[_Line] = asyncio.Queue()
        for line in range(tenant.connections):
            self._free.put_nowait(_Line(storm.servers[(number + line) % len(storm.servers)], tenant.client_id))

    async def call(self, seconds: float) -> None:
        lines = [self._free.get_nowait() for _ in range(self._tenant.connections)]
        for line in lines:
            self._free.put_nowait(line)
        try:
            async with asyncio.TaskGroup() as group:
                for due_s in due_times_s(self._tenant):
                    if due_s >= seconds:
                        break
                    await asyncio.sleep(max(0.0, due_s - self._storm.now_s()))
                    line = await self._free.get()
                    if self._storm.over(seconds):
                        break
                    group.create_task(self._one(line, due_s))
        finally:
            for line in lines:
                line.close()

    async def _one(self, line: _Line, due_s: float) -> None:
        try:
            names = list(itertools.islice(self._names, self._tenant.topics_per_request))
            if await self._ask(line, due_s, names, creates=True):
                self._there.extend(names)
            most = self._tenant.topics_max
            if most is not None and len(self._there) > most:
                old = [self._there.popleft() for _ in range(min(len(self._there), self._tenant.topics_per_request))]
                await self._ask(line, self._storm.now_s(), old, creates=False)
        finally:
            self._free.put_nowait(line)

    async def _ask(self, line: _Line, due_s: float, names: list[str], *, creates: bool) -> bool:
        """Until all topics are through, or one of them failed."""
        began_s, throttled_s, failed = self._storm.now_s(), 0.0, None
        left, tries = names, 0
        while left and failed is None:
            tries += 1
            try:
                answer = await line.ask(self._creation(left) if creates else _deletion(left))
            except (OSError, TimeoutError) as error:
                failed = f"{type(error).__name__}: {error}"
                break
            found = answer.topics if creates else answer.responses
            codes = {str(t.name): int(t.error_code) for t in found}
            left = [name for name in left if codes.get(name) == kafka_names.ERROR_THROTTLING_QUOTA_EXCEEDED]
            done = (kafka_names.ERROR_NONE, kafka_names.ERROR_THROTTLING_QUOTA_EXCEEDED)
            failed = next((f"error {code}" for code in codes.values() if code not in done), None)
            wait_s = answer.throttle_time_ms / 1000
            if left:
                throttled_s += wait_s
                if not self._tenant.honours:
                    line.close()
                await asyncio.sleep(wait_s if self._tenant.honours else back_off_s(tries))
        self._storm.requests.append(
            Request(
                self._tenant.client_id,
                creates,
                due_s,
                began_s,
                self._storm.now_s(),
                tries,
                0 if failed else len(names) * self._tenant.partitions,
                throttled_s,
                failed,
            )
        )
        return failed is None

    def _creation(self, names: list[str]) -> Any:
        tenant = self._tenant
        topics = [
            CreateTopicsRequest.CreatableTopic(
                name=name,
                num_partitions=tenant.partitions,
                replication_factor=tenant.replication_factor,
                assignments=[],
                configs=[],
            )
            for name in names
        ]
        request = CreateTopicsRequest(topics=topics, timeout_ms=int(_ANSWER_S_MAX * 1000), validate_only=False)
        request.API_VERSION = _CREATE_VERSION
        return request


def back_off_s(tries: int) -> float:
    """Until the next one, after so many."""
    doublings = min(tries - 1, 10)  # More would only be a number too large for a float.
    return min(_RETRY_S_MAX, _RETRY_S * 2.0**doublings)


def _deletion(names: list[str]) -> Any:
    topics = [DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=None) for name in names]
    request = DeleteTopicsRequest(topics=topics, topic_names=[], timeout_ms=int(_ANSWER_S_MAX * 1000))
    request.API_VERSION = _DELETE_VERSION
    return request


class _Line:
    """One connection of a client that is nobody's library: nothing is paused, nothing tried again."""

    def __init__(self, server: str, client_id: str) -> None:
        self._host, _, port = server.rpartition(":")
        self._port = int(port)
        self._client_id = client_id
        self._words = KafkaProtocol(client_id=client_id)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: Any) -> Any:
        """
        Raises:
            OSError, TimeoutError: no answer; the next request has a new connection.
        """
        try:
            async with asyncio.timeout(_ANSWER_S_MAX):
                if self._streams is None:
                    self._streams = await asyncio.open_connection(self._host, self._port)
                reader, writer = self._streams
                self._words.send_request(request)
                writer.write(self._words.send_bytes())
                while True:
                    data = await reader.read(_READ_BYTES)
                    if not data:
                        raise ConnectionResetError("closed by the broker")
                    for _, answer in self._words.receive_bytes(data):
                        return answer
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        streams, self._streams = self._streams, None
        self._words = KafkaProtocol(client_id=self._client_id)
        if streams is not None:
            with contextlib.suppress(OSError):
                streams[1].close()
