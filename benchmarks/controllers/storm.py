"""Storms on the controller: many tenants create and delete topics, each with its own client-id and rate.

Requests are due at set times, whatever happened to earlier ones, and their latency counts from the due time. A client that waits
for each response before the next request would hide the effect of the storm. Set times of several tenants would stay in step with
each other and with the quotas. A tenant that ``varies`` therefore has a random due time in each of its intervals, drawn from its
name.

A tenant has a fixed number of connections; requests beyond those wait, and count as late. Kafka's clients wait for the throttle
time of a refusal (KIP-599). A tenant that does not ``honour`` it repeats the request on a new connection, because the broker does
not read the old one until that time has passed. Between two tries it waits like Kafka's clients after any other error: 0.1 s,
doubled each time, at most 1 s.

Vocabulary:
    due     when the tenant wanted the request to begin.
    tries   how often the request was sent; refused ones are repeated until all their topics have passed.
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
CREATE_VERSION = 7
_DELETE_VERSION = 6
# retry.backoff.ms and retry.backoff.max.ms
_RETRY_S, _RETRY_S_MAX = 0.1, 1.0


@dataclass(frozen=True, slots=True)
class StormTenant:
    """The behaviour of one client-id. Every request creates ``topics_per_request`` topics of ``partitions`` partitions each."""

    client_id: str
    requests_per_s: float
    topics_per_request: int = 1
    partitions: int = 1
    replication_factor: int = 1
    connections: int = 4
    honours: bool = True
    create_version: int = (
        CREATE_VERSION  # Of CreateTopics. Kafka delays clients with a version below 6 instead of refusing.
    )
    varies: bool = False  # Due at any moment of each interval, instead of at its beginning.
    topics_max: int | None = (
        None  # From then on a request that deletes the oldest topics follows every one that creates.
    )

    def __post_init__(self) -> None:
        if self.requests_per_s <= 0 or min(self.topics_per_request, self.partitions, self.connections) < 1:
            raise ValueError(f"tenant {self.client_id}: rates and counts are above 0")


@dataclass(frozen=True, slots=True)
class Request:
    """The result of one request. Times are seconds since the start of the storm."""

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
    """Yields the due times of a tenant's requests, without an end."""
    rng = random.Random(tenant.client_id)
    for number in itertools.count():
        yield (number + (rng.random() if tenant.varies else 0.0)) / tenant.requests_per_s


@dataclass
class Storm:
    """A storm: ``run`` starts it with tenants, and ``requests`` grows meanwhile."""

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
        """Runs until the time is over or ``ended`` is set, and all requests in progress have ended. Later requests are left out.

        Args:
            began_s: start time on the machine's monotonic clock; None: now.
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
        """Repeats a request until all its topics have passed or one of them has failed."""
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
        request.API_VERSION = tenant.create_version
        return request


def back_off_s(tries: int) -> float:
    """Returns the pause after this number of tries."""
    doublings = min(tries - 1, 10)  # More would only be a number too large for a float.
    return min(_RETRY_S_MAX, _RETRY_S * 2.0**doublings)


def _deletion(names: list[str]) -> Any:
    topics = [DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=None) for name in names]
    request = DeleteTopicsRequest(topics=topics, topic_names=[], timeout_ms=int(_ANSWER_S_MAX * 1000))
    request.API_VERSION = _DELETE_VERSION
    return request


class _Line:
    """One connection without a client library: it neither pauses nor retries."""

    def __init__(self, server: str, client_id: str) -> None:
        self._host, _, port = server.rpartition(":")
        self._port = int(port)
        self._client_id = client_id
        self._words = KafkaProtocol(client_id=client_id)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: Any) -> Any:
        """Sends a request and returns its response.

        Raises:
            OSError, TimeoutError: no response; the next request uses a new connection.
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
