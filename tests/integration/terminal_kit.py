"""Runs a program on a terminal of its own: the screen that an operator would see, and the keys that are pressed.

The terminal is a pty of the kernel and belongs to the program's session, so Ctrl-C arrives as a real SIGINT. The screen
understands the control sequences that rich uses.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from lab_parts import until

CTRL_C = "\x03"
_PART = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|([\r\n\b])|([^\x1b\r\n\b]+)")


class Screen:
    """The lines of a terminal without scrolling; long lines wrap as on a real one."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._rows: list[list[str]] = [[]]
        self._row = self._column = 0
        self._rest = ""
        self.cursor_is_hidden = False

    def feed(self, text: str) -> None:
        text, self._rest = self._rest + text, ""
        cut = text.rfind("\x1b")
        if cut >= 0 and not _PART.match(text, cut):
            text, self._rest = text[:cut], text[cut:]
        for parameters, command, control, plain in _PART.findall(text):
            if command:
                self._obey(parameters, command)
            elif control:
                self._control(control)
            else:
                for character in plain:
                    self._put(character)

    def text(self) -> str:
        return "\n".join("".join(row).rstrip() for row in self._rows)

    def _obey(self, parameters: str, command: str) -> None:
        if parameters == "?25":
            self.cursor_is_hidden = command == "l"
        elif command == "A":
            self._row = max(0, self._row - int(parameters or 1))
        elif command == "K":
            del self._rows[self._row][0 if parameters == "2" else self._column :]
        elif command not in "mh":
            raise AssertionError(f"the screen does not know CSI {parameters}{command}")

    def _control(self, character: str) -> None:
        if character == "\n":
            self._down()
        elif character == "\r":
            self._column = 0
        else:
            self._column = max(0, self._column - 1)

    def _put(self, character: str) -> None:
        if self._column == self._columns:
            self._column = 0
            self._down()
        row = self._rows[self._row]
        row.extend(" " * (self._column + 1 - len(row)))
        row[self._column] = character
        self._column += 1

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append([])


class Terminal:
    def __init__(self, process: subprocess.Popen[bytes], ours: int, columns: int) -> None:
        self.process = process
        self._ours = ours
        self._screen = Screen(columns)
        self._lock = threading.Lock()
        self.frames: list[str] = []  # Every screen that was to be seen, for messages.
        self._reader = threading.Thread(target=self._read, name="terminal", daemon=True)
        self._reader.start()

    def screen(self) -> str:
        with self._lock:
            return self._screen.text()

    def cursor_is_hidden(self) -> bool:
        with self._lock:
            return self._screen.cursor_is_hidden

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def shows(self, pattern: str, timeout_s: float) -> str:
        """Waits for a match on the screen and returns the first."""
        found = until(lambda: re.search(pattern, self.screen()), timeout_s, f"{pattern!r} on the terminal")
        return found[0]

    def ends(self, timeout_s: float) -> int:
        """Waits for the end and returns the exit code; the screen is complete then."""
        try:
            code = self.process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"did not end within {timeout_s:.0f} s")
        self._reader.join(timeout=5)
        return code

    def _read(self) -> None:
        rest = b""
        while True:
            try:
                found = os.read(self._ours, 65536)
            except OSError:  # The last one who had it open is gone.
                return
            if not found:
                return
            whole, rest = _whole_characters(rest + found)
            with self._lock:
                self._screen.feed(whole)


def _whole_characters(found: bytes) -> tuple[str, bytes]:
    for cut in range(4):
        try:
            return found[: len(found) - cut].decode(), found[len(found) - cut :]
        except UnicodeDecodeError:
            continue
    return found.decode(errors="replace"), b""


@contextmanager
def terminal(
    *command: str | Path, columns: int = 120, lines: int = 40, env: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    """Starts ``command`` on a terminal; a failure contains the screen."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    try:
        process = subprocess.Popen(
            [*map(str, command)], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), env={**os.environ, "TERM": "xterm-256color", **(env or {})},
        )  # fmt: skip
    finally:
        os.close(theirs)
    shown = Terminal(process, ours, columns)
    try:
        yield shown
    except BaseException as error:
        error.add_note(f"{' '.join(map(str, command[-3:]))} showed:\n{shown.screen()[-4000:]}")
        raise
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=10)
        os.close(ours)
