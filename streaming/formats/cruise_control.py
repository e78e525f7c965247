"""Parses the binary records of Cruise Control's metrics reporter (topic ``__CruiseControlMetrics``).

A record has one measured value. All fields are big-endian:

    byte 0   class: 0 broker metric, 1 topic metric, 2 partition metric
    1        version: 0
    2        type of the metric
    3-10     time, epoch ms
    11-14    broker id
    rest     broker metric: a double; topic metric: length of the name, name, a double; partition metric: length, name,
             partition, a double

Only broker metrics are used. Unknown types, which newer reporters send, yield no scrape.

Other formats have counters of bytes. This format has Kafka's one-minute means of byte rates. The difference of two means is not a
rate, so the means have their own names (``RATES``) and are gauges. They lag by about two minutes, and arrive once per reporter
interval (60 s by default; with a longer interval, the reporter sends five-minute means). So they show a broker's load, but not the
current effect of a throttle.
The reporter's percentiles (50th and 99.9th) are not used.
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

# Sample → the field of BrokerSignal that it sets if there is no counter for it.
RATES = MappingProxyType(
    {
        CLIENT_IN_RATE: "client_in_bytes_per_s",
        CLIENT_OUT_RATE: "client_out_bytes_per_s",
        REPLICATION_IN_RATE: "replication_in_bytes_per_s",
        REPLICATION_OUT_RATE: "replication_out_bytes_per_s",
    }
)

# Type → name. 19 is the request handlers' one-minute idle mean, which the other formats use too.
TYPES = MappingProxyType(
    {0: CLIENT_IN_RATE, 1: CLIENT_OUT_RATE, 6: REPLICATION_IN_RATE, 7: REPLICATION_OUT_RATE, 19: Metric.HANDLER_IDLE}
)

VERSION = 0
_BROKER, _TOPIC, _PARTITION = 0, 1, 2
_HEAD_BYTES = 15
_INT_BYTES = 4
_DOUBLE_BYTES = 8

_MANTISSA_BITS = 52
_EXPONENT_BIAS = 1023 + _MANTISSA_BITS  # For the mantissa read as an integer.
_EXPONENT_MAX = 2047  # Exponent of infinities, and of NaN if the mantissa is not 0.


def scrapes(source: Source) -> Column:
    """Implements ``common.Format``: returns one scrape with one sample for a broker metric, and no scrape for other metrics."""
    return let(
        F.hex("value"), lambda digits: let(_fields(digits), lambda header: _useful_scrapes(digits, header, source))
    )


def _fields(digits: Column) -> Column:
    """Returns the header fields as unsigned integers; NULL for a field that lies after the end of the record."""
    layout = {
        "class": (0, 1),
        "version": (1, 1),
        "type": (2, 1),
        "ms": (3, 8),
        "broker": (11, 4),
        "name_bytes": (15, 4),
    }
    return F.struct(*[_unsigned(digits, at, size).alias(name) for name, (at, size) in layout.items()])


def _unsigned(digits: Column, at: int, size: int) -> Column:
    """Returns the unsigned integer in ``size`` bytes from byte ``at``; NULL beyond 2^63."""
    text = F.substring(digits, 2 * at + 1, 2 * size)
    return F.when(F.length(text) == 2 * size, F.conv(text, 16, 10).try_cast("long"))


def double_of(digits: Column) -> Column:
    """Returns the double with these 16 hexadecimal digits, or NULL for NaN.

    The result is exact: mantissa, power of two and their product are all representable as doubles.
    """
    sign_and_exponent = F.conv(F.substring(digits, 1, 3), 16, 10).try_cast("int")
    fraction = F.conv(F.substring(digits, 4, 13), 16, 10).try_cast("long")
    return let(
        F.struct(
            (sign_and_exponent % (_EXPONENT_MAX + 1)).alias("exponent"),
            fraction.alias("fraction"),
            (sign_and_exponent > _EXPONENT_MAX).alias("is_negative"),
        ),
        lambda bits: (
            F.when((bits.exponent == _EXPONENT_MAX) & (bits.fraction > 0), None)
            .when(bits.exponent == _EXPONENT_MAX, F.lit(float("inf")))
            # Subnormal numbers have no hidden bit.
            .when(bits.exponent == 0, bits.fraction.cast("double") * 2.0 ** (1 - _EXPONENT_BIAS))
            .otherwise(
                (bits.fraction + 2**_MANTISSA_BITS).cast("double") * F.pow(F.lit(2.0), bits.exponent - _EXPONENT_BIAS)
            )
            * F.when(bits.is_negative, -1.0).otherwise(1.0)
        ),
    )


def _useful_scrapes(digits: Column, header: Column, source: Source) -> Column:
    names = F.create_map(*[F.lit(part) for pair in TYPES.items() for part in pair])
    name = F.when(header["class"] == _BROKER, F.try_element_at(names, header["type"].cast("int")))
    value = double_of(F.substring(digits, 2 * _HEAD_BYTES + 1, 2 * _DOUBLE_BYTES))
    sample = F.struct(name.alias("n"), F.lit("").alias("l"), F.when(name.isNotNull(), value).alias("v"))
    samples = F.filter(F.array(sample), lambda s: s.n.isNotNull() & is_number(s.v))
    scrape_ = scrape(
        reason=_reason(header),
        cluster=F.lit(source.cluster),
        node=header.broker.try_cast("int"),
        role=F.lit(NodeRole.BROKER.value),
        ts=header.ms,
        samples=samples,
    )
    return F.filter(F.array(scrape_), lambda s: s.reason.isNotNull() | (F.size(s.samples) > 0))


def _reason(header: Column) -> Column:
    """Returns why the record is refused, or NULL. Each check may rely on the checks before it."""
    size = F.coalesce(F.length("value"), F.lit(0))
    topic_bytes = _HEAD_BYTES + _INT_BYTES + header.name_bytes + _DOUBLE_BYTES
    expected = (
        F.when(header["class"] == _BROKER, F.lit(_HEAD_BYTES + _DOUBLE_BYTES))
        .when(header["class"] == _TOPIC, topic_bytes)
        .when(header["class"] == _PARTITION, topic_bytes + _INT_BYTES)
    )
    return (
        F.when(size == 0, "empty record")
        .when(
            header["class"] > _PARTITION,
            _filled("unknown class {}: not a record of Cruise Control", header["class"]),
        )
        .when(header.version != VERSION, _filled(f"version {{}}, this program reads {VERSION}", header.version))
        .when(expected.isNull(), _filled("{} bytes: the record ends before the topic's name", size))
        .when(size != expected, F.concat(_filled("{} bytes, ", size), _filled("{} expected", expected)))
        .when(header.ms.isNull(), "time is negative")
        .when(header.broker.try_cast("int").isNull(), "broker is negative")
    )


def _filled(text: str, number: Column) -> Column:
    return F.replace(F.lit(text), F.lit("{}"), number.cast("string"))
