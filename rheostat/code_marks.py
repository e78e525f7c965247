"""Puts backquotes around the names in a text: options, addresses, commands of Kafka, settings and environment variables."""

from __future__ import annotations

import re

_CODE_SPAN = re.compile(r"(`+[^`]*`+)")
_NAME = re.compile(
    r"""(?<![\w./:*=-])  # a whole word, and no part of a URL, a path or a pattern
    (?: --[a-z][a-z-]*                  # --watch
      | [a-z][a-z0-9]*://[^\s;,)]*[^\s;,).]  # spark://host:port
      | kafka(?:-[a-z]+)+(?:[ ]--[a-z]+)?  # kafka-reassign-partitions --verify
      | [A-Za-z]\w*(?:[._]\w+)+(?::\w+)?  # num.replica.fetchers, slots_max, POLICY_VIOLATION, package.module:function
      | [A-Za-z]+(?:[=:][A-Za-z][\w-]*)+   # host:port, collect=User:alice
    )""",
    re.VERBOSE,
)


def mark_names(text: str) -> str:
    """Returns the text with each name in backquotes; a text in backquotes stays as it is."""
    parts = _CODE_SPAN.split(text)
    return "".join(part if i % 2 else _NAME.sub(r"`\g<0>`", part) for i, part in enumerate(parts))
