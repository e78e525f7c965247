"""Hostile records in every wire format: the query continues, good records count, and every signal is valid or refused."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from typing import Any

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from stream_cases import TOPICS, Logged, at, raw, records
from test_all_formats import NODES, SCRAPES, WRITERS

from streaming.formats.common import Source, table
from streaming.formats.registry import FORMATS, KERNEL_PARSED_FORMATS
from streaming.pipeline import Input, build
from streaming.shared.contract import BrokerSignal, ContractError, MoveSignal, ReplicationSignal, decode_signal

HOSTILE = 120  # Records of each format.
TOKENS = [
    b"NaN", b"Infinity", b"-1e999", b"1e300", b"1.7e308", b"1" + b"0" * 400, b"9223372036854775808", b"-1", b"null", b"true",
    b'""', b'"' + b"a" * 5_000 + b'"', b'"\\ud800"', b'"\\u0000"', b"[]", b"{}", b"[" * 2_000, b'{"a":' * 2_000,
]  # fmt: skip


def paths(body: Any, at_: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [at_] if at_ else []
    if isinstance(body, dict | list):
        for key, inner in body.items() if isinstance(body, dict) else enumerate(body):
            found += paths(inner, (*at_, key))
    return found


def mutated(value: bytes, chance: random.Random) -> bytes:
    """Returns a record with one value replaced, or with a few bytes cut, changed or inserted."""
    if value.startswith(b"{") and chance.random() < 0.7:
        body = json.loads(value)
        path = chance.choice(paths(body))
        inner = body
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = "@@"
        return json.dumps(body).encode().replace(b'"@@"', chance.choice(TOKENS))
    place = chance.randrange(len(value) + 1)
    return value[:place] + chance.randbytes(chance.randrange(5)) + value[place + chance.randrange(5) :]


def logged(name: str, seed: int) -> list[Logged]:
    """Good records of a node among hostile ones that name another node."""
    chance = random.Random(f"{name} {seed}")
    good = [one for k in range(SCRAPES) for one in at(5.0 * k, *WRITERS[name](k, NODES[name]))]
    others = WRITERS[name](1, 90)
    return good + [one for i in range(HOSTILE) for one in at(i / 10, mutated(chance.choice(others), chance))]


def nodes_with_signals(spark: SparkSession, seed: int) -> dict[str, set[int | None]]:
    """Returns the nodes of each format's accepted scrapes; for rheostat's own format, of its decoded signals."""
    found: dict[str, set[int | None]] = defaultdict(set)
    frames = []
    for name, format_ in FORMATS.items():
        if name in KERNEL_PARSED_FORMATS:
            continue
        values = raw(spark, [replace(one, topic=name) for one in logged(name, seed)])
        frames.append(table(values, format_, Source("c")).where("reason IS NULL").select("topic", "node"))
    for row in reduce(DataFrame.union, frames).collect():
        found[row.topic].add(row.node)
    for name in KERNEL_PARSED_FORMATS:
        for value in records(
            build([(raw(spark, logged(name, seed)), Input(name, Source("c")))], TOPICS), TOPICS.signals
        ).values():
            with suppress(ContractError):
                signal = decode_signal(value)
                is_of_broker = isinstance(signal, BrokerSignal | MoveSignal | ReplicationSignal)
                found[name].add(signal.broker if is_of_broker else signal.node)
    return found


# Without other seeds and the search for a smaller case: each takes queries of their own.
@settings(
    max_examples=1, deadline=None, phases=(Phase.explicit,), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(0, 2**32))
@example(4711)
def test_hostile_records_of_any_format_do_not_end_the_query(spark: SparkSession, seed: int) -> None:
    found = nodes_with_signals(spark, seed)
    assert found.keys() == FORMATS.keys()
    assert all(NODES[name] in nodes for name, nodes in found.items())
