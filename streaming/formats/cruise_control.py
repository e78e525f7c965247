"""The records of Cruise Control's metrics reporter, topic ``__CruiseControlMetrics``: one number each, big-endian.

    byte 0   class: 0 of a broker, 1 of a topic, 2 of a partition
    1        version, 0
    2        type
    3-10     epoch ms
    11-14    broker
    then, of a broker, a double; of a topic, the length of its name, the name, and a double; of a partition, length, name,
    partition, and a double

Only what is of a broker is ours. Types that we do not know come with newer reporters, and are no row.

Its bytes per second are Kafka's one-minute means, smoothed already, where others bring counters. A mean is not a counter:
differences of it mean nothing. So they have names of their own, ``RATES``, and are gauges. They lag some two minutes and
come once in 60 s (or whatever the reporter's interval is; beyond a minute it sends five-minute means), so they tell how
busy a broker is, and not whether a throttle works just now. Its percentiles, 50th and 99.9th, have no counterpart.
"""

from __future__ import annotations

from types import MappingProxyType

from pyspark.sql import Column
from pyspark.sql import functions as F

from streaming.formats.common import Source, is_number, let, scrape
from streaming.shared.contract import Metric, NodeRole

INTERVAL_S = 60

CLIENT_IN_RATE = "rheostat_rate_client_in_bytes_per_s"
CLIENT_OUT_RATE = "rheostat_rate_client_out_bytes_per_s"
REPLICATION_IN_RATE = "rheostat_rate_replication_in_bytes_per_s"
REPLICATION_OUT_RATE = "rheostat_rate_replication_out_bytes_per_s"

# Sample → the field of BrokerSignal that it tells, where no counter does.
RATES = MappingProxyType(
    {
        CLIENT_IN_RATE: "client_in_bytes_per_s",
        CLIENT_OUT_RATE: "client_out_bytes_per_s",
        REPLICATION_IN_RATE: "replication_in_bytes_per_s",
        REPLICATION_OUT_RATE: "replication_out_bytes_per_s",
    }
)

# Type → name. 19 is the handlers' one-minute mean, the very one that everybody else's rules take.
TYPES = MappingProxyType(
    {0: CLIENT_IN_RATE, 1: CLIENT_OUT_RATE, 6: REPLICATION_IN_RATE, 7: REPLICATION_OUT_RATE, 19: Metric.HANDLER_IDLE}
)

VERSION = 0
_BROKER, _TOPIC, _PARTITION = 0, 1, 2
_HEAD_BYTES = 15
_INT_BYTES = 4
_DOUBLE_BYTES = 8

_MANTISSA_BITS = 52
_EXPONENT_BIAS = 1023 + _MANTISSA_BITS  # The mantissa taken as a whole number.
_EXPONENT_MAX = 2047  # Of infinities, and with a mantissa of what is not a number.


def scrapes(source: Source) -> Column:
    """``common.Format``: one scrape of one sample, or none when it is not of a broker."""
    return let(F.hex("value"), lambda digits: let(_fields(digits), lambda record: _scrapes(digits, record, source)))


def _fields(digits: Column) -> Column:
    """Each is NULL when the record ends before it; whole numbers have no sign."""
    head = {"class": (0, 1), "version": (1, 1), "type": (2, 1), "ms": (3, 8), "broker": (11, 4), "name_bytes": (15, 4)}
    return F.struct(*[_whole(digits, at, size).alias(name) for name, (at, size) in head.items()])


def _whole(digits: Column, at: int, size: int) -> Column:
    """The number in that many bytes from there, without a sign; NULL beyond 2^63."""
    text = F.substring(digits, 2 * at + 1, 2 * size)
    return F.when(F.length(text) == 2 * size, F.conv(text, 16, 10).try_cast("long"))


def double_of(digits: Column) -> Column:
    """The double with these 16 hexadecimal digits, exactly; not NaN but NULL for what is not a number.

    The mantissa fits into a double, the power of two is one, and so is their product: nothing is ever rounded.
    """
    head = F.conv(F.substring(digits, 1, 3), 16, 10).try_cast("int")
    fraction = F.conv(F.substring(digits, 4, 13), 16, 10).try_cast("long")
    return let(
        F.struct((head % (_EXPONENT_MAX + 1)).alias("exponent"), fraction.alias("fraction"), head.alias("head")),
        lambda bits: (
            F.when((bits.exponent == _EXPONENT_MAX) & (bits.fraction > 0), None)
            .when(bits.exponent == _EXPONENT_MAX, F.lit(float("inf")))
            # Below the smallest exponent there is no hidden bit.
            .when(bits.exponent == 0, bits.fraction.cast("double") * 2.0 ** (1 - _EXPONENT_BIAS))
            .otherwise(
                (bits.fraction + 2**_MANTISSA_BITS).cast("double") * F.pow(F.lit(2.0), bits.exponent - _EXPONENT_BIAS)
            )
            * F.when(bits["head"] > _EXPONENT_MAX, -1.0).otherwise(1.0)
        ),
    )


def _scrapes(digits: Column, record: Column, source: Source) -> Column:
    names = F.create_map(*[F.lit(part) for pair in TYPES.items() for part in pair])
    name = F.when(record["class"] == _BROKER, F.try_element_at(names, record["type"].cast("int")))
    value = double_of(F.substring(digits, 2 * _HEAD_BYTES + 1, 2 * _DOUBLE_BYTES))
    sample = F.struct(name.alias("n"), F.lit("").alias("l"), F.when(name.isNotNull(), value).alias("v"))
    samples = F.filter(F.array(sample), lambda one: one.n.isNotNull() & is_number(one.v))
    one = scrape(
        reason=_reason(record),
        cluster=F.lit(source.cluster),
        node=record.broker.try_cast("int"),
        role=F.lit(NodeRole.BROKER.value),
        ts=record.ms,
        samples=samples,
    )
    return F.filter(F.array(one), lambda told: told.reason.isNotNull() | (F.size(told.samples) > 0))


def _reason(record: Column) -> Column:
    """The first thing that is wrong. Each rung may rely on those above it."""
    size = F.coalesce(F.length("value"), F.lit(0))
    named = _HEAD_BYTES + _INT_BYTES + record.name_bytes + _DOUBLE_BYTES
    expected = (
        F.when(record["class"] == _BROKER, F.lit(_HEAD_BYTES + _DOUBLE_BYTES))
        .when(record["class"] == _TOPIC, named)
        .when(record["class"] == _PARTITION, named + _INT_BYTES)
    )
    return (
        F.when(size == 0, "empty record")
        .when(
            record["class"] > _PARTITION,
            _told("unknown class {}: not of Cruise Control", record["class"]),
        )
        .when(record.version != VERSION, _told(f"version {{}}, this program reads {VERSION}", record.version))
        .when(expected.isNull(), _told("{} bytes end before the name", size))
        .when(size != expected, F.concat(_told("{} bytes, ", size), _told("{} expected", expected)))
        .when(record.ms.isNull(), "time is negative")
        .when(record.broker.try_cast("int").isNull(), "broker is negative")
    )


def _told(text: str, number: Column) -> Column:
    return F.replace(F.lit(text), F.lit("{}"), number.cast("string"))
