"""Reads the output of Spark's JVM line by line, so that Java's logs do not reach the operator's terminal unfiltered.

Spark's log events arrive as one JSON object per line (``PATTERN``). Other lines come from the JVM itself, for example why it does
not start. The last lines are kept to explain the JVM's death.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Log4j layout: one line per event, even if its message and stack contain line breaks.
PATTERN = r'{"level":"%p","logger":"%c{1}","message":"%enc{%m}{JSON}","stack":"%enc{%ex}{JSON}"}%n'
_KEPT = 200  # Number of last lines that are kept.
_JVM = "java"
_READ_S_MAX = 2.0


@dataclass(frozen=True, slots=True)
class JavaLine:
    """One log event of Spark, or one line of the JVM itself."""

    level: str  # Log4j's name of the level; INFO for a line of the JVM itself.
    logger: str
    message: str
    stack: str = ""

    @property
    def is_from_jvm(self) -> bool:
        return self.logger == _JVM


def parse(line: str) -> JavaLine:
    try:
        event: Any = json.loads(line)
        return JavaLine(event["level"], event["logger"], event["message"], event["stack"])
    except (ValueError, TypeError, KeyError):
        return JavaLine("INFO", _JVM, line)


class JavaOutput:
    """Reads the standard output and error of one JVM through a pipe."""

    def __init__(self, on_line: Callable[[JavaLine], None]) -> None:
        """
        Args:
            on_line: called in a separate thread for each log event and each other line, stack frames excepted.
        """
        self._on_line = on_line
        self._kept: deque[str] = deque(maxlen=_KEPT)
        reading, self._writing = os.pipe()
        self._is_open = True  # Whether this process has the writing end of the pipe open.
        self._thread = threading.Thread(target=self._read, args=(reading,), name="java-output", daemon=True)
        self._thread.start()

    @property
    def popen_options(self) -> dict[str, int]:
        """Options for ``Popen`` that connect the JVM's output to the pipe."""
        return {"stdout": self._writing, "stderr": self._writing}

    def close_writing_end(self) -> None:
        """Closes this process's writing end of the pipe, so that reading ends when the JVM ends. A second call does nothing."""
        if self._is_open:
            self._is_open = False
            os.close(self._writing)

    def last_words(self) -> str:
        """Returns the last lines of a JVM that has ended or did not start."""
        self.close_writing_end()
        self._thread.join(timeout=_READ_S_MAX)
        return "\n".join(self._kept)

    def _read(self, reading: int) -> None:
        with open(reading, encoding="utf-8", errors="replace") as lines:
            for text in lines:
                line = parse(text.rstrip("\n"))
                self._kept.append(line.message)
                is_stack_frame = line.is_from_jvm and text[:1].isspace()
                if not is_stack_frame:
                    self._on_line(line)
