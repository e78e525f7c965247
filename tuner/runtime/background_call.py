"""Runs one slow call at a time in the background, so that the throttle controller never waits for a slow answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

from streaming.shared.kafka.values import ClusterError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Call(Protocol[T_co]):
    """A call that runs in the background."""

    def done(self) -> bool: ...

    def result(self, timeout: float | None = None) -> T_co:
        """Returns the result of a call that is done, or raises its exception."""


class BackgroundCaller(Protocol):
    def start(self, call: Callable[[], T], /) -> Call[T]: ...


class ThreadCaller:
    """Runs each call in a daemon thread of its own. A user of this class starts a call only after its last call is done."""

    def start(self, call: Callable[[], T], /) -> Future[T]:
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(call())
            except BaseException as error:  # noqa: BLE001 - raised again by ``result``
                answer.set_exception(error)

        threading.Thread(target=run, name="slow-call", daemon=True).start()
        return answer


def result_or_error(call: Call[T]) -> T | ClusterError:
    """Returns the result of a call that is done. An exception becomes a ClusterError, so that the controller can continue."""
    try:
        return call.result()
    except Exception as error:  # noqa: BLE001 - reported as a failure of the call, with its name
        return ClusterError(f"{type(error).__name__}: {error}")


def refusal_text(*, ended: bool) -> str:
    """Returns why a request is not sent: the term has ended, or leadership is not certain."""
    return (
        "this tuner no longer has the lease"
        if ended
        else "it was not certain that this tuner still had the lease; the tuner tries again"
    )
