"""Plan files: every fault is named with line and key, all at once; valid files are read unchanged."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.planning.json_positions import KeyPath, find_duplicate_keys, find_lines
from tuner.planning.plan_file import CurrentPartition, PlanFile, Target, parse_current
from tuner.planning.plan_json import FAULTS_SHOWN_MAX, PlanFileError

GENERATED = (
    '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,3],"log_dirs":["any","any"]},'
    '{"topic":"orders","partition":1,"replicas":[3,2],"log_dirs":["any","any"]}]}'
)


def plan_of(*lines: str) -> str:
    return "\n".join(['{"version": 1, "partitions": [', ",\n".join(lines), "]}"])


def fault(text: str) -> str:
    with pytest.raises(PlanFileError) as raised:
        PlanFile(text, "p.json")
    return str(raised.value)


def test_plan_file_reads_output_of_generate() -> None:
    assert PlanFile(GENERATED, "p.json").targets == (
        Target("orders", 0, (1, 3), ("any", "any")),
        Target("orders", 1, (3, 2), ("any", "any")),
    )


def test_plan_file_version_is_optional() -> None:
    """As kafka-reassign-partitions has it."""
    text = '{"partitions": [{"topic": "orders", "partition": 0, "replicas": [1]}]}'
    assert PlanFile(text, "p.json").targets == (Target("orders", 0, (1,)),)


GOOD = '{"topic": "orders", "partition": 0, "replicas": [1, 2]}'
BAD: list[tuple[str, str]] = [
    (plan_of(GOOD, '{"topic": "a", "partition": 0,\n "replicsa": [1]}'), "p.json:4: partitions[1].replicsa: unknown key: did you mean replicas?"),
    (plan_of('{"topic": "a", "partition": 0, "replicas": [1], "rack": 2}'), "p.json:2: partitions[0].rack: unknown key: known here: topic, partition, replicas, log_dirs"),
    ('{"version": 1, "parts": []}', "p.json:1: parts: unknown key: did you mean partitions?"),
    (plan_of(GOOD, '{"topic": "a", "partition": 0, "replicas": [1,\n 2,\n 1]}'), "p.json:5: partitions[1].replicas[2]: broker 1 is listed twice"),
    (plan_of(GOOD, GOOD), "p.json:3: partitions[1]: partition orders-0 is listed twice, first in line 2"),
    (plan_of('{"topic": "a", "partition": -1, "replicas": [1]}'), "p.json:2: partitions[0].partition: expected a partition's number, 0 or more, found -1"),
    (plan_of('{"topic": "a", "partition": 0, "replicas": [1, -2]}'), "p.json:2: partitions[0].replicas[1]: expected a broker's id, 0 or more, found -2"),
    (plan_of('{"topic": "a", "partition": true, "replicas": [1]}'), "partitions[0].partition: expected a partition's number, 0 or more, found true"),
    (plan_of('{"topic": "a", "partition": 0, "replicas": ["1"]}'), 'partitions[0].replicas[0]: expected a broker\'s id, 0 or more, found "1"'),
    (plan_of('{"topic": "a", "partition": 0, "replicas": []}'), "partitions[0].replicas: expected a list of at least one broker's id, found []"),
    (plan_of('{"topic": "a", "partition": 0}'), "p.json:2: partitions[0].replicas: expected a list of at least one broker's id, found nothing"),
    (plan_of('{"partition": 0, "replicas": [1]}'), "p.json:2: partitions[0].topic: expected a topic's name (1 to 249 letters, digits, dots, underscores and hyphens, and neither . nor ..), found nothing"),
    (plan_of('{"topic": "", "partition": 0, "replicas": [1]}'), "partitions[0].topic: expected a topic's name (1 to 249 letters, "),
    (plan_of(GOOD, '{"topic": "a b", "partition": 0, "replicas": [1]}'), 'partitions[1].topic: expected a topic\'s name (1 to 249 letters, digits, dots, underscores and hyphens, and neither . nor ..), found "a b"'),
    (plan_of('{"topic": "\\ud800", "partition": 0, "replicas": [1]}'), 'and neither . nor ..), found "\\ud800"'),
    (plan_of('{"topic": "..", "partition": 0, "replicas": [1]}'), 'and neither . nor ..), found ".."'),
    (plan_of('{"topic": "a", "partition": 0, "replicas": [1, 2], "log_dirs": ["any"]}'), "p.json:2: partitions[0].log_dirs: expected one for each of 2 replicas, found 1"),
    (plan_of('{"topic": "a", "partition": 0, "replicas": [1], "log_dirs": "any"}'), "partitions[0].log_dirs: expected a list of paths or \"any\", found \"any\""),
    (plan_of("7"), "p.json:2: partitions[0]: expected {topic, partition, replicas}, found 7"),
    ('{\n"version": 2, "partitions": [' + GOOD + "]}", "p.json:2: version: expected 1, the only version, found 2"),
    ('{"version": "1", "partitions": [' + GOOD + "]}", 'p.json:1: version: expected 1, the only version, found "1"'),
    ('{"version": true, "partitions": [' + GOOD + "]}", "p.json:1: version: expected 1, the only version, found true"),
    ('{"version": 1}', "p.json:1: partitions: expected a list of at least one {topic, partition, replicas}, found nothing"),
    ('{"version": 1, "partitions": []}', "p.json:1: partitions: expected a list of at least one {topic, partition, replicas}, found []"),
    ("[1]", 'p.json:1: expected {"version": 1, "partitions": [...]}, found [1]'),
    ('{"version": 1,\n "partitions": [', "p.json:2: not JSON: Expecting value (column 17)"),
    ("", "p.json:1: not JSON: Expecting value (column 1)"),
    ("[" * 100_000, "p.json:1: not a plan: the JSON is nested too deep"),
    (plan_of('{"topic": "a", "partition": 0,\n "topic": "b", "replicas": [1]}'), "p.json:2: partitions[0].topic: occurs twice in one object; keep one"),
    ('{"version": 1, "partitions": {\n"a": 1, "a": 2}}', "p.json:2: partitions.a: occurs twice in one object; keep one"),
    ('{"version": 1,\n "version": 1, "partitions": [{"a": 1, "a": 2}, ', "p.json:2: not JSON: Expecting value"),
    ("Current partition replica assignment\n" + GENERATED, "p.json:1: not JSON: Expecting value (column 1); of what --generate prints, keep only the one JSON line"),
    (plan_of('{"topic": "a", "partition": 4294967296, "replicas": [1]}'), "partitions[0].partition: expected a partition's number, 0 or more, found 4294967296"),
    (plan_of('{"topic": "a", "partition": 0, "replicas": [1], "size_bytes": 5}'), "partitions[0].size_bytes: unknown key"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "named"), BAD)
def test_plan_file_fault_names_line_and_key(text: str, named: str) -> None:
    assert named in fault(text)


def test_plan_file_faults_are_in_order_of_lines() -> None:
    text = plan_of(
        '{"topic": "a", "partition": -1, "replicas": [1, 1]}', '{"topic": "b", "partition": 0, "replicas": [-3]}'
    )
    assert [line.split(": ")[:2] for line in fault(text).splitlines()] == [
        ["p.json:2", "partitions[0].partition"],
        ["p.json:2", "partitions[0].replicas[1]"],
        ["p.json:3", "partitions[1].replicas[0]"],
    ]


def test_plan_file_many_faults_are_cut() -> None:
    lines = fault(plan_of(*[f'{{"topic": "a", "partition": {p}, "replicas": [-1]}}' for p in range(1000)])).splitlines()
    assert len(lines) == FAULTS_SHOWN_MAX + 1
    assert lines[0].startswith("p.json:2: ")
    assert lines[-1] == "... and 980 more"


def test_plan_file_check_names_unknown_brokers_and_partitions() -> None:
    plan = PlanFile(GENERATED.replace("},{", "},\n{"), "p.json")
    plan.check(brokers={1, 2, 3}, partitions={("orders", 0), ("orders", 1)})
    with pytest.raises(PlanFileError) as raised:
        plan.check(brokers={1, 2}, partitions={("orders", 0)})
    assert str(raised.value).splitlines() == [
        "p.json:1: partitions[0].replicas[1]: unknown broker 3, there are 1, 2",
        "p.json:2: partitions[1].partition: there is no partition orders-1",
        "p.json:2: partitions[1].replicas[0]: unknown broker 3, there are 1, 2",
    ]


def test_plan_file_check_without_brokers_accepts_any() -> None:
    PlanFile(GENERATED, "p.json").check(brokers=None, partitions={("orders", 0), ("orders", 1)})


# -- how partitions stand --------------------------------------------------------------------------------------------------


def test_parse_current_output_of_generate_is_in_sync() -> None:
    current = parse_current(GENERATED, "c.json")
    assert current.brokers is None
    assert current.partitions[("orders", 1)] == CurrentPartition("orders", 1, (3, 2), 3, (3, 2))


def test_parse_current_reads_optional_keys() -> None:
    text = json.dumps(
        {
            "brokers": [1, 2, 3],
            "partitions": [
                {
                    "topic": "orders", "partition": 0, "replicas": [1, 2], "leader": 2, "isr": [2],
                    "size_bytes": 6e7, "write_bytes_per_s": 3,
                }
            ],
        }
    )  # fmt: skip
    current = parse_current(text, "c.json")
    assert current.brokers == frozenset({1, 2, 3})
    assert current.partitions[("orders", 0)] == CurrentPartition("orders", 0, (1, 2), 2, (2,), 6e7, 3)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ('"size_bytes": -1', "c.json:1: partitions[0].size_bytes: expected a number, 0 or more, found -1"),
        ('"size_bytes": NaN', "partitions[0].size_bytes: expected a number, 0 or more, found NaN"),
        ('"write_bytes_per_s": "3MB"', 'partitions[0].write_bytes_per_s: expected a number, 0 or more, found "3MB"'),
        ('"leader": 3', "partitions[0].leader: expected only brokers of replicas [1, 2], found [3]"),
        ('"leader": null', "partitions[0].leader: expected a broker's id, found nothing"),
        ('"isr": [1, 3]', "partitions[0].isr: expected only brokers of replicas [1, 2], found [1, 3]"),
        ('"isr": []', "partitions[0].isr: expected a list of at least one broker's id, found []"),
        ('"sizebytes": 5', "partitions[0].sizebytes: unknown key: did you mean size_bytes?"),
    ],
)
def test_parse_current_fault_names_line_and_key(more: str, named: str) -> None:
    text = f'{{"partitions": [{{"topic": "orders", "partition": 0, "replicas": [1, 2], {more}}}]}}'
    with pytest.raises(PlanFileError) as raised:
        parse_current(text, "c.json")
    assert named in str(raised.value)


@pytest.mark.parametrize("brokers", ["[1]", "[1, 1]", "[-1, 1, 2]", "3"])
def test_parse_current_bad_brokers_are_refused(brokers: str) -> None:
    text = f'{{"brokers": {brokers}, "partitions": [{{"topic": "orders", "partition": 0, "replicas": [1, 2]}}]}}'
    with pytest.raises(PlanFileError, match="brokers"):
        parse_current(text, "c.json")


# -- lines ---------------------------------------------------------------------------------------------------------------

JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def paths_of(value: Any, at: KeyPath = ()) -> Iterator[KeyPath]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*at, key)
        yield from paths_of(part, (*at, key))


@given(JSON)
def test_find_lines_any_json_has_all_lines(value: Any) -> None:
    text = json.dumps(value, indent=1)
    found = find_lines(text, set(paths_of(value)))
    rows = text.splitlines() if "\n" in text else [text]

    def walk(at: tuple[str | int, ...], inside: Any) -> None:
        parts = inside.items() if isinstance(inside, dict) else enumerate(inside) if isinstance(inside, list) else ()
        for key, part in parts:
            row = rows[found[(*at, key)] - 1].strip()
            begins = json.dumps(key) + ":" if isinstance(inside, dict) else json.dumps(part)[0]
            assert row.startswith(begins)
            walk((*at, key), part)

    walk((), value)


@given(JSON, st.data())
def test_find_lines_subset_of_paths_has_same_lines(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value, indent=1)
    paths = list(paths_of(value))
    some = data.draw(st.sets(st.sampled_from(paths))) if paths else set()
    whole = find_lines(text, paths)
    assert find_lines(text, some) == {path: whole[path] for path in some}


def test_find_lines_missing_path_has_line_of_parent() -> None:
    text = '{"a":\n {"b": [1,\n 2]},\n "c": 3}'
    paths: list[KeyPath] = [("a", "x"), ("a", "b", 1), ("a", "b", 7, "y"), ("d",), ("c", 0)]
    assert list(find_lines(text, paths).values()) == [1, 3, 2, 1, 4]


def test_find_duplicate_keys_at_any_depth() -> None:
    text = '{"a": [{"x": 1,\n "y": {"z": 1, "z": 2}},\n {"x": 1, "x": 2,\n "x": 3}],\n "a": 1}'
    assert find_duplicate_keys(text) == [(("a", 0, "y", "z"), 2), (("a", 1, "x"), 3), (("a", 1, "x"), 4), (("a",), 5)]


@pytest.mark.parametrize("fault", ["replicas", "key", "twice", "all"])
def test_plan_file_large_plan_fault_is_found_fast(fault: str) -> None:
    """A hundredth of the largest plans; the bound is of the processor's time, and of what the standard parser takes."""
    entries = [{"topic": f"t-{p // 64}", "partition": p % 64, "replicas": [p % 50, p % 50 + 1]} for p in range(20_000)]
    for entry in entries if fault == "all" else entries[-1:]:
        entry["replicas"] = [1, 1]
    text = json.dumps({"version": 1, "partitions": entries}, indent=1)
    if fault == "key":
        text = text.replace('"replicas": [\n    1,\n    1', '"replcas": [\n    1,\n    2')
    if fault == "twice":
        text = text.replace('"replicas": [\n    1,\n    1', '"topic": "", "replicas": [\n    1,\n    2')
    parsing_s = min(took_s(lambda: json.loads(text)) for _ in range(3))
    said = ""

    def refuse() -> None:
        nonlocal said
        with pytest.raises(PlanFileError) as raised:
            PlanFile(text, "p.json")
        said = str(raised.value)

    refused_s = min(took_s(refuse) for _ in range(3))
    last = "".join(text.partition("t-312")[0]).count("\n") if fault != "all" else 0
    assert int(said.split(":")[1]) > last
    assert refused_s < 20 * parsing_s, f"{refused_s:.2f} s, and the parser alone takes {parsing_s:.2f} s"


@pytest.mark.slow
def test_plan_file_fifty_megabytes_are_read_or_refused() -> None:
    """Within what the planning of 200,000 partitions may take; its only fault stands at its end."""
    entries = [
        {"topic": f"a-topic-with-quite-a-long-name-{p // 64}", "partition": p % 64, "replicas": [p % 50, p % 50 + 1]}
        for p in range(450_000)
    ]
    text = json.dumps({"version": 1, "partitions": entries}, indent=1)
    assert len(text) > 50_000_000
    began_s = time.process_time()
    plan = PlanFile(text, "p.json")
    assert len(plan.targets) == len(entries)
    assert time.process_time() - began_s < 30
    where, found = text.rpartition('"partition": ')[0], text.count("\n")
    broken = f'{where}"partition": -7,\n   "replicas": [\n    1\n   ]\n  }}\n ]\n}}'
    with pytest.raises(PlanFileError, match="partition") as raised:
        PlanFile(broken, "p.json")
    assert found - 10 < int(str(raised.value).split(":")[1]) <= found


def took_s(do: Callable[[], object]) -> float:
    began_s = time.process_time()
    do()
    return time.process_time() - began_s


@given(st.text() | JSON.map(json.dumps))
def test_plan_file_any_text_is_read_or_refused(text: str) -> None:
    refused = None
    try:
        PlanFile(text, "p.json")
    except PlanFileError as error:
        refused = str(error)
    assert refused is None or refused.startswith("p.json:")
