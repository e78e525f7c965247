"""What is said to a terminal that has gone, and that its going ends a command once."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import pytest

from rheostat import cli
from rheostat.console.output import tell


class Gone:
    def write(self, _: str) -> int:
        raise OSError(5, "Input/output error")

    def flush(self) -> None: ...


@pytest.fixture
def hangup() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


def test_who_says_something_to_a_terminal_that_has_gone_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Gone())
    tell("putting it back")


def test_what_is_said_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    tell("putting it back")
    assert capsys.readouterr().err == "putting it back\n"


@pytest.mark.usefixtures("hangup")
def test_a_terminal_that_goes_ends_a_command_once_however_often_it_is_told() -> None:
    signal.signal(signal.SIGHUP, cli._exit_on_signal)
    with pytest.raises(SystemExit) as ending:
        signal.raise_signal(signal.SIGHUP)
    assert ending.value.code == 129
    signal.raise_signal(signal.SIGHUP)  # While what stood is being put back.
