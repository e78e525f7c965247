"""Telegraf's two formats yield the same scrapes; unknown metrics yield no row, and broken records are refused with a reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Row, SparkSession

from streaming.formats import telegraf, telegraf_influx, telegraf_json
from streaming.formats.common import NO_NODE, RAW, SCRAPE_TYPE, Format, Source, table
from streaming.shared.contract import Metric

T0 = 1_700_000_010_123
MACHINE_KINDS = ("net", "ethtool")
SOURCE = Source("main", {"kafka-2.example.com": 2, "10.0.0.9:8081": 3, "kafka-4": 4})
TAGS = {"broker_id": "7", "host": "kafka-7"}


def metric(
    name: str, fields: Mapping[str, Any], tags: Mapping[str, Any] = TAGS, timestamp: Any = T0, **other: Any
) -> dict[str, Any]:
    return {"name": name, "tags": dict(tags), "fields": dict(fields), "timestamp": timestamp, **other}


GOOD = metric("kafka_topics", {"BytesInPerSec.Count": 5, "BytesInPerSec.RateUnit": "SECONDS"})
TEXT = json.dumps(GOOD).encode()
LINE = (
    b'kafka_topics,broker_id=7,host=kafka-7 BytesInPerSec.Count=5,BytesInPerSec.RateUnit="SECONDS" 1700000010123000000'
)


def parsed(spark: SparkSession, format_: Format, values: Mapping[str, bytes | None]) -> dict[str, list[Row]]:
    """Returns the rows of each record from one query."""
    logged = datetime.fromtimestamp(T0 / 1000, UTC)
    raw = spark.createDataFrame([(v, "telegraf", 0, n, logged) for n, v in enumerate(values.values())], RAW)
    rows = table(raw, format_, SOURCE).collect()
    return {name: [row for row in rows if row.offset == n] for n, name in enumerate(values)}


def samples(row: Row) -> dict[tuple[str, str], float]:
    return {(s.n, s.l): s.v for s in row.samples}


def dumped(values: Mapping[str, Any]) -> dict[str, bytes | None]:
    return {name: json.dumps(value).encode() for name, value in values.items()}


# -- names ------------------------------------------------------------------------------------------------------------


def test_fields_table_maps_every_contract_name_once() -> None:
    mapped = [name for fields in telegraf.FIELDS.values() for name in fields.values()]
    wanted = {v for k, v in vars(Metric).items() if not k.startswith("_") and v.startswith("kafka_")}
    # Two plugins report the speed of an interface.
    assert sorted(mapped) == sorted([*wanted, Metric.LINK_SPEED, Metric.LINK_SPEED])


def test_scrapes_mapped_field_has_contract_name_and_labels(spark: SparkSession) -> None:
    tags = {
        "request": {"request": "Produce"},
        "request_errors": {"request": "CreateTopics", "error": "THROTTLING_QUOTA_EXCEEDED"},
        "request_versions": {"version": "5", "request": "CreateTopics"},
        "socket_server": {"networkProcessor": "2", "listener": "PLAIN"},
        "controller_mutation": {"user": "a%2Cb", "client-id": "x,y=z"},
    }
    labels = {
        "request": "request=Produce",
        "request_errors": "request=CreateTopics",
        "request_versions": "request=CreateTopics,version=5",
        "socket_server": "listener=PLAIN,networkprocessor=2",
        "controller_mutation": "client_id=x%2Cy%3Dz,user=a%2Cb",
    }
    records = {
        kind: metric(f"kafka_{kind}", dict.fromkeys(fields, 1.5), TAGS | tags.get(kind, {}))
        for kind, fields in telegraf.FIELDS.items()
        if kind not in MACHINE_KINDS
    }
    expected = {
        kind: [{(name, labels.get(kind, "")): 1.5 for name in fields.values()}]
        for kind, fields in telegraf.FIELDS.items()
        if kind not in MACHINE_KINDS
    }
    influx = {kind: line(record) for kind, record in records.items()}

    for format_, values in ((telegraf_json.scrapes, dumped(records)), (telegraf_influx.scrapes, influx)):
        found = parsed(spark, format_, values)
        assert {kind: [samples(row) for row in rows] for kind, rows in found.items()} == expected
        assert {(r.reason, r.cluster, r.node, r.role, r.ts) for rows in found.values() for r in rows} == {
            (None, "main", 7, None, T0)
        }


def test_scrapes_read_speeds_of_physical_interfaces_only(spark: SparkSession) -> None:
    """Telegraf's plugins net and ethtool report Mbit/s: -1, or the largest 32-bit integer, for an unknown speed."""
    host = {"host": "kafka-4"}
    records = {
        "eth0": metric("net", {"bytes_recv": 3284081640, "speed": 1000}, host | {"interface": "eth0"}),
        "bond0": metric(
            "prod_ethtool", {"interface_up": True, "rx_bytes": 7, "speed": 20_000, "duplex": 1},
            host | {"interface": "bond0", "driver": "bonding"},
        ),
        "all": metric("net", {"ip_forwarding": 2, "tcp_rtomin": 200}, host | {"interface": "all"}),
        "docker0": metric("net", {"bytes_recv": 1, "speed": 10_000}, host | {"interface": "docker0"}),
        "eth1": metric("net", {"bytes_recv": 1, "speed": -1}, host | {"interface": "eth1"}),
        "eth2": metric("ethtool", {"interface_up": False, "speed": 4294967295}, host | {"interface": "eth2"}),
        "no interface": metric("net", {"speed": 1000}, host),
        "another machine": metric("net", {"speed": 1000}, {"host": "db-1", "interface": "eth0"}),
    }  # fmt: skip
    influx = {name: line(record) for name, record in records.items()}
    for format_, values in ((telegraf_json.scrapes, dumped(records)), (telegraf_influx.scrapes, influx)):
        found = {name: rows for name, rows in parsed(spark, format_, values).items() if rows}
        assert {name: [(row.reason, row.node, samples(row)) for row in rows] for name, rows in found.items()} == {
            "eth0": [(None, 4, {(Metric.LINK_SPEED, "device=eth0"): 125e6})],
            "bond0": [(None, 4, {(Metric.LINK_SPEED, "device=bond0"): 2.5e9})],
        }


def line(record: Mapping[str, Any]) -> bytes:
    def word(text: str) -> str:
        return text.replace(",", "\\,").replace("=", "\\=").replace(" ", "\\ ")

    tags = "".join(f",{word(k)}={word(v)}" for k, v in record["tags"].items())
    fields = ",".join(f"{word(k)}={v}" for k, v in record["fields"].items())
    return f"{record['name']}{tags} {fields} {record['timestamp'] * 10**6}\n".encode()


def test_scrapes_of_both_formats_have_the_common_type(spark: SparkSession) -> None:
    raw = spark.createDataFrame([], RAW)
    wanted = spark.createDataFrame([], f"scrapes array<{SCRAPE_TYPE}>").schema["scrapes"].dataType.simpleString()
    for format_ in (telegraf_json.scrapes, telegraf_influx.scrapes):
        (given,) = raw.select(format_(SOURCE)).schema
        assert given.dataType.simpleString() == wanted


# -- JSON: who, when, whose -------------------------------------------------------------------------------------------

BYTES_IN = {"BytesInPerSec.Count": 5}
RATE = {"byte-rate": 9.5}
AGENT = "http://{}/jolokia"

NOT_OURS = {
    "another measurement": metric("cpu", {"usage_idle": 98.5}, {"host": "nobody"}),
    "a topic's own": metric("kafka_topic", BYTES_IN, {"topic": "t", "host": "nobody"}),
    "a topic's own, called topics": metric("kafka_topics", BYTES_IN, TAGS | {"topic": "t"}),
    "of our name, without our fields": metric("raid_controller", {"temperature": 40}, {"host": "nobody"}),
    "another's field with our name": metric("cpu", {"byte-rate": "fast"}, {"host": "nobody"}),
    "another error": metric("kafka_request_errors", {"Count": 1}, TAGS | {"request": "Fetch", "error": "NONE"}),
    "a version of another request": metric(
        "kafka_request_versions", {"Count": 1}, TAGS | {"request": "ListTopics", "version": "3"}
    ),
    "another request": metric("kafka_request", {"TotalTimeMs.99thPercentile": 1}, TAGS | {"request": "Metadata"}),
    "another end": metric("kafka_topics2", BYTES_IN),
    "ends so, without a border": metric("mytopics", BYTES_IN),
    "nothing to measure": metric("kafka_leader_replication", {"byte-rate": "NaN"}, {"host": "nobody"}),
    "no fields": metric("kafka_topics", {}),
}
# Record → node, cluster, role, ts.
TOLD: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "broker_id": (metric("kafka_topics", BYTES_IN), (7, "main", None, T0)),
    "another prefix": (metric("prod.kafka.topics", BYTES_IN), (7, "main", None, T0)),
    "no prefix": (metric("topics", BYTES_IN), (7, "main", None, T0)),
    "node_id": (
        metric("kafka_topics", BYTES_IN, {"node_id": "100", "role": "controller"}),
        (100, "main", "controller", T0),
    ),
    "host": (metric("kafka_topics", BYTES_IN, {"host": "kafka-4", "role": "both"}), (4, "main", None, T0)),
    "agent": (
        metric(
            "kafka_topics", BYTES_IN, {"host": "kafka-4", "jolokia_agent_url": AGENT.format("kafka-2.example.com:8080")}
        ),
        (2, "main", None, T0),
    ),
    "port": (
        metric("kafka_topics", BYTES_IN, {"jolokia_agent_url": AGENT.format("10.0.0.9:8081")}),
        (3, "main", None, T0),
    ),
    "local": (
        metric("kafka_topics", BYTES_IN, {"host": "kafka-4", "jolokia_agent_url": AGENT.format("localhost:8080")}),
        (4, "main", None, T0),
    ),
    "cluster": (metric("kafka_topics", BYTES_IN, TAGS | {"cluster": "b", "role": "broker"}), (7, "b", "broker", T0)),
    "empty tags": (metric("kafka_topics", BYTES_IN, TAGS | {"cluster": "", "node_id": ""}), (7, "main", None, T0)),
    "s": (metric("kafka_topics", BYTES_IN, TAGS, T0 // 1000), (7, "main", None, T0 // 1000 * 1000)),
    "us": (metric("kafka_topics", BYTES_IN, TAGS, T0 * 1000 + 999), (7, "main", None, T0)),
    "ns": (metric("kafka_topics", BYTES_IN, TAGS, T0 * 10**6 + 999_999), (7, "main", None, T0)),
    "date": (metric("kafka_topics", BYTES_IN, TAGS, "2023-11-14T22:13:30.123Z"), (7, "main", None, T0)),
    "no time": (metric("kafka_topics", BYTES_IN, TAGS, None), (7, "main", None, None)),
    "the longest": (metric("kafka_topics", BYTES_IN, TAGS, 2**63 - 1), (7, "main", None, (2**63 - 1) // 10**6)),
}
# Beside BYTES_IN, which is kept.
NO_NUMBERS = [b"NaN", b'"NaN"', b"Infinity", b"-Infinity", b"1e400", b"1e300", b"null"]
NOT_JSON = "not JSON: one object and nothing else is expected"
NO_NAME = "no name: neither a metric nor a list of metrics"
NO_FIELDS = "no fields, or fields is not an object"
WRONG = "tags is not an object, or a field is not a number"
UNKNOWN = metric("kafka_topics", BYTES_IN, {"host": "b1", "jolokia_agent_url": AGENT.format("localhost:8080")})
UNKNOWN_REASON = NO_NODE.format("b1 at http://localhost:8080/jolokia")

REFUSED: dict[str, tuple[bytes | None, str]] = {
    "tombstone": (None, "empty record"),
    "empty": (b"", "empty record"),
    "blank": (b" \n", NOT_JSON),
    "line protocol": (LINE, NOT_JSON),
    "number": (b"5", NOT_JSON),
    "null": (b"null", NOT_JSON),
    "array": (b"[" + TEXT + b"]", NOT_JSON),
    "truncated": (TEXT[:-5], NOT_JSON),
    "trailing garbage": (TEXT + b" x", NOT_JSON),
    "two objects": (TEXT + b"\n" + TEXT, NOT_JSON),
    "two with comma": (TEXT + b"," + TEXT, NOT_JSON),
    "invalid UTF-8": (TEXT.replace(b"kafka-7", b"\xff\xfe"), "invalid UTF-8"),
    "2,000 levels": (TEXT[:-1] + b',"z":' + b"[" * 2000 + b"]" * 2000 + b"}", NOT_JSON),
    "2,000 digits": (TEXT.replace(b" 5", b" " + b"1" * 2000), NOT_JSON),
    "empty object": (b"{}", NO_NAME),
    "empty name": (TEXT.replace(b"kafka_topics", b""), NO_NAME),
    "number for a name": (TEXT.replace(b'"kafka_topics"', b"-5.5"), "name is not text: -5.5"),
    "object for a name": (TEXT.replace(b'"kafka_topics"', b'{"a":1}'), 'name is not text: {"a":1}'),
    "text for fields": (json.dumps(GOOD | {"fields": "x"}).encode(), NO_FIELDS),
    "list of fields": (json.dumps(GOOD | {"fields": [1]}).encode(), NO_FIELDS),
    "null for fields": (json.dumps(GOOD | {"fields": None}).encode(), NO_FIELDS),
    "list of tags": (json.dumps(GOOD | {"tags": ["a"]}).encode(), WRONG),
    "text for a number": (TEXT.replace(b" 5", b' "5"'), WRONG),
    "object for a number": (TEXT.replace(b" 5", b' {"a":5}'), WRONG),
    "words for a time": (
        json.dumps(GOOD | {"timestamp": "noon"}).encode(),
        "timestamp is neither a whole number nor a date: noon",
    ),
    "fraction for a time": (
        json.dumps(GOOD | {"timestamp": 1.5}).encode(),
        "timestamp is neither a whole number nor a date: 1.5",
    ),
    "unknown host": (json.dumps(UNKNOWN).encode(), UNKNOWN_REASON),
    "no host": (json.dumps(GOOD | {"tags": {}}).encode(), NO_NODE.format("its sender, which names no host,")),
    "no tags": (
        json.dumps({k: v for k, v in GOOD.items() if k != "tags"}).encode(),
        NO_NODE.format("its sender, which names no host,"),
    ),
    "broker_id in words": (
        json.dumps(GOOD | {"tags": {"broker_id": "seven"}}).encode(),
        "no node: the tag broker_id is not a whole number: seven",
    ),
    "a batch with an unknown host": (json.dumps({"metrics": [GOOD, UNKNOWN, UNKNOWN]}).encode(), UNKNOWN_REASON),
    "a batch of numbers": (b'{"metrics":[5]}', NO_NAME),
    "a batch with nothing": (b'{"metrics":[null]}', NO_NAME),
    "a batch that is none": (b'{"metrics":5}', NO_NAME),
}


def test_telegraf_json_records_are_read_or_refused_one_by_one(spark: SparkSession) -> None:
    batch = {
        "metrics": [
            GOOD,
            NOT_OURS["another measurement"],
            metric("kafka_follower_replication", RATE, {"host": "kafka-4"}),
        ]
    }
    with_numbers = {
        f"value {n!r}": TEXT.replace(b' "SECONDS"', b" 1").replace(b"}", b', "BytesOutPerSec.Count": ' + n + b"}", 1)
        for n in NO_NUMBERS
    }
    large = metric("kafka_topics", BYTES_IN | {f"f{n}": "x" * 90 for n in range(10_000)})
    values = {
        **dumped(NOT_OURS),
        **{f"told {name}": json.dumps(record).encode() for name, (record, _) in TOLD.items()},
        **with_numbers,
        **{f"refused {name}": value for name, (value, _) in REFUSED.items()},
        **dumped({"batch": batch, "empty batch": {"metrics": []}, "1 MB": large, "deep": GOOD | {"z": {"y": [[1]]}}}),
        "1 MB of brackets": b"[" * 1_000_000,
    }
    assert len(values["1 MB"] or b"") > 1_000_000

    found = parsed(spark, telegraf_json.scrapes, values)

    assert {name: found[name] for name in NOT_OURS} == {name: [] for name in NOT_OURS}
    told = {name: [(r.reason, (r.node, r.cluster, r.role, r.ts)) for r in found[f"told {name}"]] for name in TOLD}
    assert told == {name: [(None, expected)] for name, (_, expected) in TOLD.items()}
    only_in = {(Metric.CLIENT_IN, ""): 5.0}
    assert [[(r.reason, samples(r)) for r in found[name]] for name in with_numbers] == [[(None, only_in)]] * len(
        NO_NUMBERS
    )
    reasons = {name: [r.reason for r in found[f"refused {name}"]] for name in REFUSED}
    assert reasons == {name: [reason] for name, (_, reason) in REFUSED.items()}
    assert [(r.reason, r.node, samples(r)) for r in found["batch"]] == [
        (None, 7, only_in),
        (None, 4, {(Metric.FOLLOWER_THROTTLED, ""): 9.5}),
    ]
    assert found["empty batch"] == []
    assert [samples(r) for name in ("1 MB", "deep") for r in found[name]] == [only_in, only_in]
    assert [r.reason for r in found["1 MB of brackets"]] == [NOT_JSON]


# -- line protocol ----------------------------------------------------------------------------------------------------

HEAD = b"kafka_topics,broker_id=7 "
IN5 = {(Metric.CLIENT_IN, ""): 5.0}
NS = T0 * 10**6
# Line → the value of BytesInPerSec.Count; each is a good one.
VALUES: dict[bytes, float] = {
    b"BytesInPerSec.Count=5": 5.0,
    b"BytesInPerSec.Count=5i": 5.0,
    b"BytesInPerSec.Count=5u": 5.0,
    b"BytesInPerSec.Count=-5.25": -5.25,
    b"BytesInPerSec.Count=+.5": 0.5,
    b"BytesInPerSec.Count=1.": 1.0,
    b"BytesInPerSec.Count=1.5e+3": 1500.0,
    b"BytesInPerSec.Count=9223372036854775807i": 2.0**63,
    b'a="x, BytesInPerSec.Count=1 y",BytesInPerSec.Count=5': 5.0,
    b'a="x,\nkafka_topics,broker_id=8 BytesInPerSec.Count=1 1",BytesInPerSec.Count=5': 5.0,
    b'a="say \\"x\\",BytesInPerSec.Count=1,b=\\"",BytesInPerSec.Count=5': 5.0,
    b'a="ends in \\\\",BytesInPerSec.Count=5,b="\\\\"': 5.0,
    b'a="",BytesInPerSec.Count=5,b="="': 5.0,
    b"xBytesInPerSec.Count=1,BytesInPerSec.Count=5,BytesInPerSec.Count2=3": 5.0,
    b"x\\,BytesInPerSec.Count=1,BytesInPerSec.Count=5": 5.0,
    b"x\\ BytesInPerSec.Count=1,BytesInPerSec.Count=5": 5.0,
    b"BytesInPerSecXCount=1,BytesInPerSec.Count=5": 5.0,
    b'q"=1,BytesInPerSec.Count=5,r\\="=2': 5.0,
    b"a=t,b=T,c=true,d=True,e=TRUE,f=f,g=F,h=false,i=False,j=FALSE,BytesInPerSec.Count=5": 5.0,
}
# A whole record → its rows, as (node, cluster, ts).
LINES: dict[bytes, list[tuple[Any, ...]]] = {
    b"topics,broker_id=7 BytesInPerSec.Count=5 %d" % NS: [(7, "main", T0)],
    b"topics,broker_id=7 BytesInPerSec.Count=5 %d\n" % NS: [(7, "main", T0)],
    b"topics,broker_id=7 BytesInPerSec.Count=5 %d\r\n" % NS: [(7, "main", T0)],
    b"  topics,broker_id=7   BytesInPerSec.Count=5   %d  \n\n" % NS: [(7, "main", T0)],
    b"topics,broker_id=7 BytesInPerSec.Count=5": [(7, "main", None)],
    b"topics,broker_id=7 BytesInPerSec.Count=5 -5": [(7, "main", -5000)],
    b"topics,host=kafka-4,xbroker_id=1,x\\,broker_id=2 BytesInPerSec.Count=5": [(4, "main", None)],
    b'topics,host=kafka-4,a="x BytesInPerSec.Count=5,b="y"': [(4, "main", None)],
    b"my\\ kafka\\,\\=a=b_topics,cluster=a\\ b\\,c\\=d\\e,broker_id=7 BytesInPerSec.Count=5": [(7, "a b,c=d\\e", None)],
    b'# a comment, with = and "\ntopics,broker_id=7 BytesInPerSec.Count=5\n\n \ncpu,host=x a=1 5\n'
    b"topics,node_id=8 BytesInPerSec.Count=5 %d\n" % NS: [(7, "main", None), (8, "main", T0)],
    b"# nothing but this": [],
    b"cpu,host=nobody usage=5 1": [],
    b'cpu,host=nobody byte-rate="fast" 1': [],
    b"kafka_topic,topic=t BytesInPerSec.Count=5": [],
    b"kafka_topics,broker_id=7 BytesInPerSec.Count=t": [],
    b'kafka_topics,broker_id=7 BytesInPerSec.Count="5"': [],
    b"kafka_topics,broker_id=7 BytesInPerSec.Count=1e400": [],
}
BAD = "not line protocol, line {}: "
REFUSED_LINES: dict[str, tuple[bytes | None, str]] = {
    "tombstone": (None, "empty record"),
    "empty": (b"", "empty record"),
    "blank": (b" \n\t\n", "empty record"),
    "invalid UTF-8": (LINE.replace(b"host=kafka-7", b"host=\xff"), "invalid UTF-8"),
    "UTF-16": (LINE.decode().encode("utf-16"), "invalid UTF-8"),
    "JSON": (b'{"name": "cpu"}', BAD.format(1) + '{"name": "cpu"}'),
    "text": (b"hello", BAD.format(1) + "hello"),
    "no fields": (b"m,a=b 5", BAD.format(1) + "m,a=b 5"),
    "no tag value": (b"m,a= f=1", BAD.format(1) + "m,a= f=1"),
    "no tag key": (b"m,=b f=1", BAD.format(1) + "m,=b f=1"),
    "no measurement": (b",a=b f=1", BAD.format(1) + ",a=b f=1"),
    "NaN": (b"m f=NaN", BAD.format(1) + "m f=NaN"),
    "Infinity": (b"m f=+Inf 5", BAD.format(1) + "m f=+Inf 5"),
    "half a truth": (b"m f=tru", BAD.format(1) + "m f=tru"),
    "unknown suffix": (b"m f=5x", BAD.format(1) + "m f=5x"),
    "open text": (b'm f="abc', BAD.format(1) + 'm f="abc'),
    "text that ends too early": (b'm f="a"b"', BAD.format(1) + 'm f="a"b"'),
    "truncated": (LINE[: LINE.index(b"SECONDS")], BAD.format(1) + LINE[:60].decode()),
    "two on a line": (LINE + b" " + LINE, BAD.format(1) + LINE[:60].decode()),
    "time in words": (b"m f=1 noon", BAD.format(1) + "m f=1 noon"),
    "a space after a comma": (b"m f=1, g=2", BAD.format(1) + "m f=1, g=2"),
    "the third of four": (b"m f=1\n\nm,=b f=1\nm f=1\n" + LINE, BAD.format(3) + "m,=b f=1"),
    "after a text of two lines": (b'm f="a\nb"\nx\n', BAD.format(3) + "x"),
    "the time": (
        b"topics,broker_id=7 BytesInPerSec.Count=5 " + b"9" * 20,
        "timestamp is neither a whole number nor a date: " + "9" * 20,
    ),
    "unknown host": (
        b"kafka_topics,host=b1,jolokia_agent_url=http://localhost:8080/jolokia BytesInPerSec.Count=5 1",
        UNKNOWN_REASON,
    ),
    "one of two": (HEAD + b"BytesInPerSec.Count=5\ntopics,host=b\\ 1 BytesInPerSec.Count=5\n", NO_NODE.format("b 1")),
    "broker_id in words": (
        b"topics,broker_id=seven BytesInPerSec.Count=5",
        "no node: the tag broker_id is not a whole number: seven",
    ),
}
# Each a megabyte, or enough of what a pattern repeats to overflow the stack of one that goes deeper for it: (record, rows).
LARGE: dict[str, tuple[bytes, int]] = {
    "fields": (HEAD + b"BytesInPerSec.Count=5" + b",f=1" * 250_000, 1),
    "texts": (HEAD + b"BytesInPerSec.Count=5" + b',f="a,b"' * 20_000, 1),
    "tags": (b"topics,broker_id=7" + b",t=1" * 40_000 + b" BytesInPerSec.Count=5", 1),
    "escapes": (HEAD + b'BytesInPerSec.Count=5,f="' + b'a\\"' * 40_000 + b'"', 1),
    "escapes in a name": (HEAD + b"BytesInPerSec.Count=5,f" + b"a\\," * 40_000 + b"=1", 1),
    "a measurement": (b"a\\ " * 40_000 + b"_topics,broker_id=7 BytesInPerSec.Count=5", 1),
    "lines": (b"cpu f=1\n" * 20_000 + HEAD + b"BytesInPerSec.Count=5", 1),
    "blank lines": (b"\n" * 100_000 + HEAD + b"BytesInPerSec.Count=5", 1),
    "spaces": (HEAD + b" " * 100_000 + b"BytesInPerSec.Count=5", 1),
    "digits": (HEAD + b"BytesInPerSec.Count=5,f=" + b"1" * 100_000, 1),
    "equals signs": (b"m " + b"=" * 100_000, 0),
    "commas": (b"m " + b"," * 100_000, 0),
    "backslashes": (b"m " + b"\\" * 100_000, 0),
    "quotes": (b"m f=" + b'"' * 100_001, 0),
    "words": (b"m," + b"a" * 100_000, 0),
}


def test_telegraf_influx_lines_are_read_or_refused_one_by_one(spark: SparkSession) -> None:
    values = {
        **{f"value {n}": HEAD + fields + b" %d" % NS for n, fields in enumerate(VALUES)},
        **{f"line {n}": record for n, record in enumerate(LINES)},
        **{f"refused {name}": value for name, (value, _) in REFUSED_LINES.items()},
        **{f"large {name}": value for name, (value, _) in LARGE.items()},
    }

    found = parsed(spark, telegraf_influx.scrapes, values)

    read = [[(r.reason, r.node, r.ts, samples(r)) for r in found[f"value {n}"]] for n in range(len(VALUES))]
    assert read == [[(None, 7, T0, {(Metric.CLIENT_IN, ""): value})] for value in VALUES.values()]
    lines = [[(r.reason, (r.node, r.cluster, r.ts), samples(r)) for r in found[f"line {n}"]] for n in range(len(LINES))]
    assert lines == [[(None, row, IN5) for row in rows] for rows in LINES.values()]
    reasons = {name: [r.reason for r in found[f"refused {name}"]] for name in REFUSED_LINES}
    assert reasons == {name: [reason] for name, (_, reason) in REFUSED_LINES.items()}
    large = {name: [samples(r) if r.reason is None else r.reason for r in found[f"large {name}"]] for name in LARGE}
    assert {name: rows for name, rows in large.items() if LARGE[name][1]} == {
        name: [IN5] for name, (_, count) in LARGE.items() if count
    }
    refused = {name: rows for name, rows in large.items() if not LARGE[name][1]}
    assert refused == {name: [BAD.format(1) + LARGE[name][0][:60].decode()] for name in refused}
