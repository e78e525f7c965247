"""What Spark's JVM prints: read here, line by line, so that pages of Java never reach the operator's terminal.

Spark's own log events arrive as one JSON object a line (``PATTERN``). Other lines are the JVM's own words, such as why it does
not start; the last of them are kept, to tell the cause of its death.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Log4j's layout: an event is one line, whatever its message and its stack hold.
PATTERN = r'{"level":"%p","logger":"%c{1}","message":"%enc{%m}{JSON}","stack":"%enc{%ex}{JSON}"}%n'
_KEPT = 200
_JVM = "java"
_READ_S_MAX = 2.0


@dataclass(frozen=True, slots=True)
class JavaLine:
    """One log event of Spark, or one line of the JVM itself."""

    level: str  # As Log4j names it; INFO for the JVM's own words.
    logger: str
    message: str
    stack: str = ""

    @property
    def is_of_jvm(self) -> bool:
        return self.logger == _JVM


def parse(line: str) -> JavaLine:
    try:
        event: Any = json.loads(line)
        return JavaLine(event["level"], event["logger"], event["message"], event["stack"])
    except (ValueError, TypeError, KeyError):
        return JavaLine("INFO", _JVM, line)


class JavaOutput:
    """The reading end of what one JVM writes to its standard output and error."""

    def __init__(self, hear: Callable[[JavaLine], None]) -> None:
        """
        Args:
            hear: called for each event, and each line of the JVM itself but frames of stacks; in a thread of its own.
        """
        self._hear = hear
        self._kept: deque[str] = deque(maxlen=_KEPT)
        reading, self._writing = os.pipe()
        self._is_open = True  # The writing end, here.
        self._thread = threading.Thread(target=self._read, args=(reading,), name="java-output", daemon=True)
        self._thread.start()

    @property
    def popen_options(self) -> dict[str, int]:
        """To start the JVM with."""
        return {"stdout": self._writing, "stderr": self._writing}

    def started(self) -> None:
        """Closes this process's writing end: the JVM has its own by now, or there is none. A second call does nothing.

        With the last of the writing ends the reading ends.
        """
        if self._is_open:
            self._is_open = False
            os.close(self._writing)

    def last_words(self) -> str:
        """Returns the last lines of a JVM that has ended, or that did not start."""
        self.started()
        self._thread.join(timeout=_READ_S_MAX)
        return "\n".join(self._kept)

    def _read(self, reading: int) -> None:
        with open(reading, encoding="utf-8", errors="replace") as lines:
            for text in lines:
                line = parse(text.rstrip("\n"))
                self._kept.append(line.message)
                if not (line.is_of_jvm and text[:1].isspace()):  # A frame of a stack.
                    self._hear(line)
