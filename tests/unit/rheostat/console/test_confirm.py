"""The confirmation before a dangerous change: accepted answers, `--yes`, and no terminal."""

from __future__ import annotations

import io
import os
import pty
import select

import pytest

from rheostat.console.confirm import check_can_confirm, confirm
from rheostat.errors import EXIT_NOT_CONFIRMED, NotConfirmedError

CHANGES = ["broker 3 leader: 10.0 MB/s → 50.0 MB/s", "broker 3 follower: 10.0 MB/s → 50.0 MB/s"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch, stdin: io.StringIO) -> Terminal:
    """Provides this input, and a terminal as stderr. Call it in the test: pytest replaces stderr after fixtures."""
    stderr = Terminal()
    monkeypatch.setattr("termios.tcflush", lambda *_: None)
    monkeypatch.setattr("sys.stdin", stdin)
    monkeypatch.setattr("sys.stderr", stderr)
    return stderr


@pytest.mark.parametrize("answer", ["y\n", " YES \n"])
def test_confirm_with_yes_on_terminal_returns(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = on_terminal(monkeypatch, Terminal(answer))
    confirm(CHANGES, yes=False)
    assert shown.getvalue() == "\n".join([*CHANGES, "Continue? [y/N] "])


@pytest.mark.parametrize(
    ("answer", "agrees"), [("unthrottled\n", True), ("y\n", False), ("yes\n", False), ("\n", False)]
)
def test_confirm_with_a_word_requires_that_word(answer: str, agrees: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = on_terminal(monkeypatch, Terminal(answer))
    if agrees:
        confirm(CHANGES, yes=False, word="unthrottled")
    else:
        with pytest.raises(NotConfirmedError, match="Nothing was changed"):
            confirm(CHANGES, yes=False, word="unthrottled")
    assert shown.getvalue().endswith("Type unthrottled to continue: ")


@pytest.mark.parametrize("answer", ["n\n", "\n", "", "yep\n"])
def test_confirm_with_another_answer_ends(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = on_terminal(monkeypatch, Terminal(answer))
    with pytest.raises(NotConfirmedError, match="Nothing was changed") as ending:
        confirm(CHANGES, yes=False)
    assert ending.value.exit_code == EXIT_NOT_CONFIRMED
    assert shown.getvalue().startswith("\n".join(CHANGES))


@pytest.mark.timeout(30)
def test_confirm_drops_input_typed_before_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    controller, terminal = pty.openpty()

    class Answering(Terminal):
        def write(self, text: str) -> int:
            if "Continue?" in text:
                os.write(controller, b"n\n")
            return super().write(text)

    try:
        os.write(controller, b"y\n")
        assert select.select([terminal], [], [], 10.0)[0], "it has been typed"
        with open(terminal, closefd=False) as stdin:
            monkeypatch.setattr("sys.stdin", stdin)
            monkeypatch.setattr("sys.stderr", Answering())
            with pytest.raises(NotConfirmedError):
                confirm(CHANGES, yes=False)
    finally:
        os.close(controller)
        os.close(terminal)


def test_confirm_without_terminal_requires_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = on_terminal(monkeypatch, io.StringIO("y\n"))
    with pytest.raises(NotConfirmedError, match="give --yes"):
        confirm(CHANGES, yes=False)
    with pytest.raises(NotConfirmedError, match="give --yes"):
        check_can_confirm(yes=False)
    assert "Continue" not in shown.getvalue()


def test_confirm_with_yes_shows_changes_without_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = on_terminal(monkeypatch, io.StringIO())
    check_can_confirm(yes=True)
    confirm(CHANGES, yes=True)
    assert shown.getvalue() == "\n".join([*CHANGES, ""])
