"""Value ranges for the fields of a signal; msgspec checks them while it decodes.

Any client with write access to the signals topic can send a signal. A value outside these ranges cannot be a measurement and would
break arithmetic: a float times 1e300 is infinite, and no date has a year after 9999. Constructors do not check ranges.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

RECORD_BYTES_MAX = 1_048_576  # Kafka's default for `max.message.bytes`.
COUNT_MAX = 2**53  # Many programs read JSON numbers as floats, which hold integers exactly up to this value.
NUMBER_MAX = 1e24  # Kafka itself reports about 1e20 tokens for a tenant without a quota.
TIMESTAMP_MS_MAX = 253_402_300_799_999  # The last millisecond of the year 9999.
NODE_ID_MAX = 2**31 - 1  # Kafka's node ids and partition numbers are 32-bit integers.
# The minimum is above 0, because the tuner divides the number of scrapes by completeness.
COMPLETENESS_MIN, COMPLETENESS_MAX = 1e-6, 1e6
TEXT_CHARS_MAX = 4_096
ITEMS_MAX = 10_000
REASON_CHARS_MAX = 200

TimestampMs = Annotated[int, Meta(ge=0, le=TIMESTAMP_MS_MAX)]
NodeId = Annotated[int, Meta(ge=0, le=NODE_ID_MAX)]
Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
Number = Annotated[float, Meta(ge=-NUMBER_MAX, le=NUMBER_MAX)]
Completeness = Annotated[float, Meta(ge=COMPLETENESS_MIN, le=COMPLETENESS_MAX)]
Text = Annotated[str, Meta(max_length=TEXT_CHARS_MAX)]
LimitedItems = Meta(max_length=ITEMS_MAX)  # For arrays.


def error_text(error: Exception) -> str:
    """Returns the error's message in ASCII without control characters, because msgspec's messages quote values of the record."""
    return str(error).encode("unicode_escape").decode()[:REASON_CHARS_MAX]
