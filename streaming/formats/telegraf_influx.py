r"""Telegraf's ``data_format = "influx"``, its default: line protocol, a metric a line.

    measurement,tag=value,tag=value field=1.5,other=3i,text="a, b" 1700000000000000000

Outside of quotes a backslash belongs to the comma, space or equals sign after it, and is itself otherwise; inside of
them it belongs to whatever follows, and a line may go on after a newline. A number may end in i or u; the time may be
missing, and is the record's then. Blank lines and comments (#) hold nothing.

One pattern reads the record from its beginning, line after line. Where it stops is the bad line, and the record is
refused. What it read is known to be well-formed, so everything after it may be looked for with small patterns, once the
texts in quotes, none of them ours, are emptied: what is left holds no comma, space or equals sign that means something
else.

Every repetition is possessive: nothing is tried twice, so time is linear in size, and Java's matcher, which goes a level
deeper for each choice that it may come back to, stays flat. A megabyte of commas would overflow its stack otherwise, and
with it end the query.
"""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F

from streaming.formats import telegraf
from streaming.formats.common import Source, let

_SPACES = r"[ \t]++"
_NAME = r"(?:[^\\, \n\r\t#]|\\[,= ]?+)(?:[^\\, \n\r\t]++|\\[,= ]?+)*+"
_WORD = r"(?:[^\\,= \n\r\t]++|\\[,= ]?+)++"
_HEAD = rf"{_NAME}(?:,{_WORD}={_WORD})*+"
_TEXT = r'"(?:[^"\\]++|\\[\s\S])*+"'
_NUMBER = r"[-+]?+(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][-+]?+\d++)?+"
_TRUTH = r"(?:true|True|TRUE|t|T|false|False|FALSE|f|F)"
_FIELD = rf"{_WORD}=(?:{_NUMBER}[iu]?+|{_TEXT}|{_TRUTH})"
_METRIC = rf"{_HEAD}{_SPACES}{_FIELD}(?:,{_FIELD})*+(?:{_SPACES}-?+\d++)?+[ \t]*+"
_NOTHING = r"[ \t]*+(?:#[^\n]*+)?+\r?+"
_LINE = rf"\G(?:(?:{_NOTHING}\n)++|[ \t]*+{_METRIC}\r?+(?:\n|\z)|{_NOTHING}\z)"  # Or several that hold nothing.

_BAD_LINE_SHOWN = 60

_READER = telegraf.Reader(
    tag=lambda m, tag: _plain(F.regexp_extract(m["head"], rf"(?<!\\),{re.escape(tag)}=({_WORD})", 1)),
    number=lambda m, field: F.regexp_extract(m["body"], _number_of(field), 1).try_cast("double"),
    time=lambda m: F.nullif(F.regexp_extract(m["body"], r"[ \t](-?\d++)\s*+\z", 1), F.lit("")),
)


def scrapes(source: Source) -> Column:
    """``common.Format``: a scrape for each line that is ours."""
    text = F.col("value").cast("string")
    lines = F.when(F.is_valid_utf8(text), F.regexp_extract_all(text, F.lit(_LINE), F.lit(0)))
    return let(lines, lambda read: telegraf.scrapes(_reason(text, read), _metrics(read), _READER, source))


def _reason(text: Column, lines: Column) -> Column:
    good = F.array_join(lines, "")
    return (
        F.when(text.isNull() | ~text.rlike(r"\S"), "empty record")
        .when(lines.isNull(), "invalid UTF-8")
        .when(F.octet_length(good) < F.octet_length(text), let(good, lambda before: _bad_line(text, before)))
    )


def _bad_line(text: Column, before: Column) -> Column:
    number = F.length(before) - F.length(F.replace(before, F.lit("\n"), F.lit(""))) + 1
    shown = F.substring(text, F.length(before) + 1, F.lit(_BAD_LINE_SHOWN))
    return F.concat(F.lit("not line protocol, line "), number, F.lit(": "), F.substring_index(shown, "\n", 1))


def _metrics(lines: Column) -> Column:
    """Of well-formed lines, those whose measurement may be ours."""
    heads = F.transform(
        lines,
        lambda line: F.struct(line.alias("line"), F.regexp_extract(line, rf"^[ \t]*+{_HEAD}", 0).alias("head")),
    )
    kinds = F.transform(
        heads,
        lambda h: F.struct(
            telegraf.kind_of(F.regexp_extract(h["head"], rf"^[ \t]*+{_NAME}", 0)).alias("kind"), h["head"], h["line"]
        ),
    )
    return F.transform(
        F.filter(kinds, lambda k: k["kind"] != ""),
        lambda k: F.struct(k["kind"], k["head"], _without_texts(k["line"], k["head"]).alias("body")),
    )


def _without_texts(line: Column, head: Column) -> Column:
    """Fields and time, each text in quotes emptied."""
    body = F.substring(line, F.length(head) + 1, F.length(line))
    return F.regexp_replace(body, rf'="(?<!\\="){_TEXT[1:]}', '=""')


def _number_of(field: str) -> str:
    """The name, and only then what must have stood before it: Java looks for a literal beginning by leaps."""
    name = f"{re.escape(field)}="
    return rf"{name}(?<=[, \t]{name})(?<!\\[, ]{name})({_NUMBER})"


def _plain(word: Column) -> Column:
    """Without its escapes; NULL for what is not there."""
    return F.nullif(F.regexp_replace(word, r"\\([,= ])", "$1"), F.lit(""))
