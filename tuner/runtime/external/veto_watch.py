"""Asks the checks of ``tuner.vetoes`` in threads of their own, and returns which of them veto now.

A decision never waits for a check: it gets the last answers. Each check has one thread, which sends one request at a time, so that
a check that hangs delays no other check.

    valid answer       counts for ``answer_valid_s``
    no valid answer    for ``unknown_hold_s`` no throttle is raised; after that the check does not veto
"""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

import structlog

from streaming.shared.kafka.secrets import LoginError, SecretFile
from tuner.core.vetoes import Veto, VetoReport
from tuner.runtime.external.http_client import FailureKind, NoAnswer, send
from tuner.runtime.external.veto_answers import VetoAnswer, read_answer
from tuner.settings.external import VetoSettings

log = structlog.get_logger("tuner")

_NOT_ASKED = "it has not answered yet"


@dataclass(slots=True)
class CheckState:
    """The last answer of a check, and the cause if the last request failed.

    Attributes:
        answered_at_s: when the last valid answer came; before the first valid answer, the time at which the check began.
        answer: the last valid answer; None if there was none yet.
        failure: why the last request failed; None if the request succeeded.
    """

    answered_at_s: float
    answer: VetoAnswer | None = None
    failure: str | None = field(default=_NOT_ASKED)

    def is_unknown(self, settings: VetoSettings, now_s: float) -> bool:
        """Returns whether the check has no valid answer now."""
        return self.answer is None or now_s - self.answered_at_s > settings.answer_valid_s

    def veto(self, settings: VetoSettings, now_s: float, lower_to_bytes_per_s: int | None) -> Veto | None:
        """Returns the veto that is in force now; None if there is none."""
        if self.answer is not None and not self.is_unknown(settings, now_s):
            return Veto(settings.name, self.answer.cause, lower_to_bytes_per_s) if self.answer.vetoes else None
        valid_s = 0.0 if self.answer is None else settings.answer_valid_s
        if now_s - self.answered_at_s - valid_s >= settings.unknown_hold_s:
            return None
        # An unknown answer is no reason to lower a throttle.
        return Veto(settings.name, f"no valid answer: {self.failure or 'the last answer has expired'}")


class VetoWatch:
    """Runs the checks until ``stop``. ``current`` may be called in any thread."""

    def __init__(
        self,
        checks: Sequence[VetoSettings],
        rate_bytes_per_s_min: int,
        monotonic_s: Callable[[], float],
        count_failure: Callable[[str, FailureKind], None],
    ) -> None:
        """
        Args:
            rate_bytes_per_s_min: the rate to which a check lowers throttles if its settings name none.
            count_failure: counts a request without a valid answer, by the name of its check.
        """
        self._checks = tuple(checks)
        self._monotonic_s = monotonic_s
        self._count_failure = count_failure
        self._rates = {
            check.name: round(check.lower_to_bytes_per_s or rate_bytes_per_s_min) if check.effect == "lower" else None
            for check in self._checks
        }
        self._lock = threading.Lock()
        self._states = {check.name: CheckState(monotonic_s()) for check in self._checks}
        self._stopped = threading.Event()

    def start(self) -> None:
        for check in self._checks:
            threading.Thread(target=self._ask_repeatedly, args=(check,), name=f"veto {check.name}", daemon=True).start()

    def stop(self) -> None:
        """Ends the threads. A thread with a request in progress ends after that request; this method does not wait for it."""
        self._stopped.set()

    def current(self) -> tuple[Veto, ...]:
        """Returns the vetoes that are in force now."""
        now_s = self._monotonic_s()
        with self._lock:
            vetoes = [self._states[c.name].veto(c, now_s, self._rates[c.name]) for c in self._checks]
        return tuple(veto for veto in vetoes if veto is not None)

    def reports(self) -> tuple[VetoReport, ...]:
        """Returns the state of each check."""
        now_s = self._monotonic_s()
        with self._lock:
            return tuple(
                VetoReport(
                    check.name,
                    check.effect,
                    vetoes=self._states[check.name].veto(check, now_s, None) is not None,
                    is_unknown=self._states[check.name].is_unknown(check, now_s),
                )
                for check in self._checks
            )

    def _ask_repeatedly(self, check: VetoSettings) -> None:
        while not self._stopped.is_set():
            try:
                self._note_answer(check, ask(check))
            except NoAnswer as failure:
                self._note_failure(check, failure)
            self._stopped.wait(check.interval_s)

    def _note_answer(self, check: VetoSettings, answer: VetoAnswer) -> None:
        with self._lock:
            before = self._states[check.name]
            self._states[check.name] = CheckState(self._monotonic_s(), answer, failure=None)
        was_vetoing = before.answer is not None and before.answer.vetoes
        if answer.vetoes and not was_vetoing:
            log.warning(
                "an external check of tuner.vetoes vetoes, so the tuner raises no throttle",
                veto=check.name,
                effect=check.effect,
                cause=answer.cause,
            )
        elif was_vetoing and not answer.vetoes:
            log.info("an external check of tuner.vetoes no longer vetoes", veto=check.name)
        elif before.failure is not None:
            log.info("an external check of tuner.vetoes answers", veto=check.name)

    def _note_failure(self, check: VetoSettings, failure: NoAnswer) -> None:
        self._count_failure(check.name, failure.kind)
        with self._lock:
            state = self._states[check.name]
            is_new = state.failure in (None, _NOT_ASKED)
            state.failure = str(failure)
        if is_new:
            log.warning(
                "an external check of tuner.vetoes gives no valid answer. The last answer counts for answer_valid_s; then the "
                "tuner raises no throttle for unknown_hold_s; after that, the check no longer vetoes",
                veto=check.name,
                why=str(failure),
                answer_valid_s=check.answer_valid_s,
                unknown_hold_s=check.unknown_hold_s,
            )


def ask(check: VetoSettings) -> VetoAnswer:
    """Returns the answer of a check to one request.

    Raises:
        NoAnswer: there is no valid answer.
    """
    url = check.url
    if check.prometheus is not None:
        url = f"{check.prometheus.rstrip('/')}/api/v1/query?query={quote(check.query or '', safe='')}"
    assert url is not None
    request = urllib.request.Request(url, headers={"Accept": "application/json"})
    if check.token_file is not None:
        try:
            token = SecretFile("token_file", check.token_file, "tuner.vetoes").read()
        except LoginError as error:
            raise NoAnswer(FailureKind.SECRET, str(error)) from error
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    return read_answer(send(request, check.cafile, check.timeout_s), check)
