"""Signals that arrive while a child process is started are deferred and then delivered."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rheostat.run import process
from streaming.shared import deferred_interrupts

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]
POPEN = subprocess.Popen


@pytest.fixture(autouse=True)
def default() -> Iterator[None]:
    """Installs Python's default handler, because other tests may have left another."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The started children; Ctrl-C is pressed during each start."""
    children: list[Any] = []

    def pressed(*args: Any, **kwargs: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        children.append(POPEN(*args, **kwargs))
        return children[-1]

    monkeypatch.setattr(subprocess, "Popen", pressed)
    yield children
    for child in children:
        if child.poll() is None:
            child.kill()
            child.wait(timeout=10)


def test_spawn_interrupted_by_ctrl_c_leaves_no_child(made: list[Any], tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        process.spawn(SLEEPER, log=tmp_path / "log")
    (child,) = made
    assert child.poll() is not None


def test_spawn_with_non_raising_handler_calls_it_once(made: list[Any], tmp_path: Path) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        child = process.spawn(SLEEPER, log=tmp_path / "log")
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]
    assert made == [child]
    assert child.poll() is None


@pytest.mark.parametrize(("first_only", "comes_to"), [(True, 1), (False, 2)])
def test_deferred_interrupts_first_only_defers_one_ctrl_c(*, first_only: bool, comes_to: int) -> None:
    went_on: list[bool] = []

    def pressed_twice() -> None:
        with deferred_interrupts.DeferredInterrupts(first_only=first_only):
            signal.raise_signal(signal.SIGINT)
            went_on.append(True)
            signal.raise_signal(signal.SIGINT)
            went_on.append(True)

    with pytest.raises(KeyboardInterrupt):
        pressed_twice()
    assert went_on == [True] * comes_to
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_spawn_that_fails_still_raises_the_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        raise FileNotFoundError("no such program")

    monkeypatch.setattr(subprocess, "Popen", fails)
    with pytest.raises(KeyboardInterrupt):
        process.spawn(["nothing"], log=tmp_path / "log")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_deferred_interrupts_restores_every_handler_despite_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes between the restoration of two handlers: SIGTERM has its earlier handler again."""
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    put_back = signal.signal

    def pressed(number: int, handler: Any) -> Any:
        found = put_back(number, handler)
        if handler is signal.default_int_handler:
            signal.raise_signal(signal.SIGINT)
        return found

    kept = deferred_interrupts.DeferredInterrupts()
    try:
        with pytest.raises(KeyboardInterrupt), kept:
            monkeypatch.setattr(deferred_interrupts.signal, "signal", pressed)
        signal.raise_signal(signal.SIGTERM)
        assert heard == [signal.SIGTERM]
    finally:
        put_back(signal.SIGTERM, before)


def test_spawn_interrupted_after_the_fork_ends_the_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ctrl-C comes after the fork, while the handlers are restored."""
    children = []
    put_back = signal.signal

    def made(*args: Any, **kwargs: Any) -> Any:
        children.append(POPEN(*args, **kwargs))
        return children[-1]

    def pressed(number: int, handler: Any) -> Any:
        found = put_back(number, handler)
        if handler is signal.default_int_handler:
            signal.raise_signal(signal.SIGINT)
        return found

    monkeypatch.setattr(subprocess, "Popen", made)
    monkeypatch.setattr(deferred_interrupts.signal, "signal", pressed)
    with pytest.raises(KeyboardInterrupt):
        process.spawn(SLEEPER, log=tmp_path / "log")
    (child,) = children
    assert child.poll() is not None
