r"""Parses Telegraf's default ``data_format = "influx"``: line protocol, one metric per line.

    measurement,tag=value,tag=value field=1.5,other=3i,text="a, b" 1700000000000000000

Outside quotes, a backslash escapes a following comma, space or equals sign and is literal otherwise. Inside quotes it escapes any
character, and a text may contain newlines. A number may end in i or u. A line without time gets the record's time. Blank lines and
comments (#) are skipped.

One pattern checks the record line by line from its start. The record is refused at the first line that does not match. Well-formed
lines are then searched with small patterns. Quoted texts, which are never used, are emptied first, so that every remaining comma,
space and equals sign is syntax.

All repetitions are possessive, so matching takes linear time and no recursion. Otherwise a megabyte of commas would overflow the
stack of Java's matcher and end the query.
"""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F

from streaming.formats import telegraf
from streaming.formats.common import Source, envelope_or, let

_SPACES = r"[ \t]++"
_NAME = r"(?:[^\\, \n\r\t#]|\\[,= ]?+)(?:[^\\, \n\r\t]++|\\[,= ]?+)*+"
_WORD = r"(?:[^\\,= \n\r\t]++|\\[,= ]?+)++"
_HEAD = rf"{_NAME}(?:,{_WORD}={_WORD})*+"
_TEXT = r'"(?:[^"\\]++|\\[\s\S])*+"'
_NUMBER = r"[-+]?+(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][-+]?+\d++)?+"
_BOOLEAN = r"(?:true|True|TRUE|t|T|false|False|FALSE|f|F)"
_FIELD = rf"{_WORD}=(?:{_NUMBER}[iu]?+|{_TEXT}|{_BOOLEAN})"
_METRIC = rf"{_HEAD}{_SPACES}{_FIELD}(?:,{_FIELD})*+(?:{_SPACES}-?+\d++)?+[ \t]*+"
_NO_METRIC = r"[ \t]*+(?:#[^\n]*+)?+\r?+"
# One line with a metric, or several lines without a metric.
_LINE = rf"\G(?:(?:{_NO_METRIC}\n)++|[ \t]*+{_METRIC}\r?+(?:\n|\z)|{_NO_METRIC}\z)"

_BAD_LINE_SHOWN = 60

_READER = telegraf.Reader(
    tag=lambda m, tag: _plain(F.regexp_extract(m["head"], rf"(?<!\\),{re.escape(tag)}=({_WORD})", 1)),
    number=lambda m, field: F.regexp_extract(m["body"], _number_of(field), 1).try_cast("double"),
    time=lambda m: F.nullif(F.regexp_extract(m["body"], r"[ \t](-?\d++)\s*+\z", 1), F.lit("")),
)


def scrapes(source: Source) -> Column:
    """Implements ``common.Format``: returns a scrape for each line with a known metric."""
    text = F.col("value").cast("string")
    lines = F.when(F.is_valid_utf8(text), F.regexp_extract_all(text, F.lit(_LINE), F.lit(0)))
    return let(lines, lambda lines_: telegraf.scrapes(_reason(text, lines_), _metrics(lines_), _READER, source))


def _reason(text: Column, lines: Column) -> Column:
    """Returns why the record is refused, or NULL. ``lines``: the well-formed lines from the start of the text."""
    well_formed = F.array_join(lines, "")
    return (
        F.when(text.isNull() | ~text.rlike(r"\S"), "empty record")
        .when(lines.isNull(), envelope_or("invalid UTF-8"))
        .when(
            F.octet_length(well_formed) < F.octet_length(text),
            F.coalesce(envelope_or(None), let(well_formed, lambda before: _bad_line(text, before))),
        )
    )


def _bad_line(text: Column, before: Column) -> Column:
    """Returns the message about the line that follows ``before`` in the text."""
    number = F.length(before) - F.length(F.replace(before, F.lit("\n"), F.lit(""))) + 1
    shown = F.substring(text, F.length(before) + 1, F.lit(_BAD_LINE_SHOWN))
    return F.concat(F.lit("not line protocol, line "), number, F.lit(": "), F.substring_index(shown, "\n", 1))


def _metrics(lines: Column) -> Column:
    """Returns the well-formed lines whose measurement has a known kind, as ``telegraf.Reader`` reads them."""
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
    """Returns fields and time of a line, with each quoted text emptied. A text begins after an equals sign without a backslash."""
    body = F.substring(line, F.length(head) + 1, F.length(line))
    return F.regexp_replace(body, rf'="(?<!\\="){_TEXT[1:]}', '=""')


def _number_of(field: str) -> str:
    """Returns a pattern for the field's number.

    The pattern begins with the literal name, for which Java has a fast search. Then it checks that a field begins with this name.
    """
    name = f"{re.escape(field)}="
    return rf"{name}(?<=[, \t]{name})(?<!\\[, ]{name})({_NUMBER})"


def _plain(word: Column) -> Column:
    """Returns the word without escapes; NULL for an empty word."""
    return F.nullif(F.regexp_replace(word, r"\\([,= ])", "$1"), F.lit(""))
