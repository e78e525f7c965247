"""One slow call at a time, beside the loop: a controller in a storm answers late, and the throttles must not wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

from streaming.shared.kafka.values import ClusterError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Call(Protocol[T_co]):
    def done(self) -> bool: ...

    def result(self, timeout: float | None = None) -> T_co:
        """What came of it, or raises what it raised; asked once it is done."""


class BackgroundCaller(Protocol):
    def start(self, call: Callable[[], T], /) -> Call[T]: ...


class ThreadCaller:
    """Each call in a thread of its own, which ends with it; one that hangs ends with the process. The caller sees to it that
    the next one starts after the last has ended."""

    def start(self, call: Callable[[], T], /) -> Future[T]:
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(call())
            except BaseException as error:  # noqa: BLE001 - raised again where the result is asked for
                answer.set_exception(error)

        threading.Thread(target=run, name="slow-call", daemon=True).start()
        return answer


def answer_of(call: Call[T]) -> T | ClusterError:
    """Of a call that is done. Whatever went wrong beside: the throttles have their seconds all the same."""
    try:
        return call.result()
    except Exception as error:  # noqa: BLE001 - told as a failure of the call, with its name
        return ClusterError(f"{type(error).__name__}: {error}")


def refusal_text(*, ended: bool) -> str:
    """Why a request of a tuner that acts no more, or cannot be certain that it may, is not made."""
    return "this tuner acts no more" if ended else "it was not certain any more that this tuner may; tried again"
