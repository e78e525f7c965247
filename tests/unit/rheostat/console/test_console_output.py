"""Output to a closed terminal, and the SIGHUP that closing it sends."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import pytest

from rheostat import cli
from rheostat.console.output import tell


class ClosedTerminal:
    def write(self, _: str) -> int:
        raise OSError(5, "Input/output error")

    def flush(self) -> None: ...


@pytest.fixture
def hangup() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


def test_tell_ignores_a_closed_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", ClosedTerminal())
    tell("restoring the rate")


def test_tell_writes_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    tell("restoring the rate")
    assert capsys.readouterr().err == "restoring the rate\n"


@pytest.mark.usefixtures("hangup")
def test_sighup_ends_a_command_once() -> None:
    signal.signal(signal.SIGHUP, cli._exit_on_signal)
    with pytest.raises(SystemExit) as ending:
        signal.raise_signal(signal.SIGHUP)
    assert ending.value.code == 129
    signal.raise_signal(signal.SIGHUP)  # Sent again during the cleanup.
