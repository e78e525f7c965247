"""A source keeps one token for all clients: renewed in time, still used while the endpoint fails, and shared by a private file."""

from __future__ import annotations

import stat
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from streaming.shared.kafka import token_source as module
from streaming.shared.kafka.access_tokens import AccessToken, TokenProvider
from streaming.shared.kafka.secrets import LoginError
from streaming.shared.kafka.token_source import TokenSource, token_source

WAIT_S_MAX = 10.0


class Origin:
    """Gives tokens t1, t2, … or fails; ``fetched`` is released at each try."""

    key_and_value = "the test's origin"

    def __init__(self, lifetime_s: float) -> None:
        self.lifetime_s = lifetime_s
        self.error: Exception | None = None
        self.hold: threading.Event | None = None
        self.tries = 0
        self.fetched = threading.Semaphore(0)

    def fetch(self) -> AccessToken:
        if self.hold is not None:
            self.hold.wait(WAIT_S_MAX)
        self.tries += 1
        self.fetched.release()
        if self.error is not None:
            raise self.error
        return AccessToken(f"t{self.tries}", time.time() + self.lifetime_s)


@pytest.fixture
def source_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Origin], TokenSource]]:
    monkeypatch.setattr(module, "_RETRY_S_MIN", 0.02)
    sources: list[TokenSource] = []

    def make(origin: Origin) -> TokenSource:
        sources.append(TokenSource(origin))  # type: ignore[arg-type]  # an origin of the test
        return sources[-1]

    yield make
    for source in sources:
        source.close()


def await_tries(origin: Origin, count: int) -> None:
    for _ in range(count):
        assert origin.fetched.acquire(timeout=WAIT_S_MAX)


def test_clients_share_one_token(source_of: Callable[[Origin], TokenSource]) -> None:
    origin = Origin(60)
    source = source_of(origin)
    assert {source.token().value for _ in range(5)} == {"t1"}
    assert origin.tries == 1


def test_token_is_renewed_before_it_expires(source_of: Callable[[Origin], TokenSource]) -> None:
    origin = Origin(0.5)
    source = source_of(origin)
    first = source.token()
    await_tries(origin, 2)
    assert time.time() < first.expires_s


def test_valid_token_is_used_while_the_endpoint_fails(source_of: Callable[[Origin], TokenSource]) -> None:
    origin = Origin(1.0)
    source = source_of(origin)
    assert source.token().value == "t1"
    origin.error = LoginError("the endpoint is away")
    await_tries(origin, 3)
    assert source.token().value == "t1"
    origin.error = None
    await_tries(origin, 2)


@pytest.mark.parametrize("error", [LoginError("the endpoint is away"), RecursionError("the endpoint is away")])
def test_failure_is_raised_at_once_and_heals(source_of: Callable[[Origin], TokenSource], error: Exception) -> None:
    origin = Origin(60)
    origin.error = error
    source = source_of(origin)
    for _ in range(3):
        began_s = time.monotonic()
        with pytest.raises(LoginError, match="the endpoint is away"):
            source.token()
        assert time.monotonic() - began_s < 5
    origin.error = None
    deadline_s = time.monotonic() + WAIT_S_MAX
    while True:
        try:
            assert source.token().value.startswith("t")
            break
        except LoginError:
            assert time.monotonic() < deadline_s
            origin.fetched.acquire(timeout=0.1)


def test_slow_endpoint_is_named_after_the_wait(source_of: Callable[[Origin], TokenSource]) -> None:
    origin = Origin(60)
    origin.hold = threading.Event()
    with pytest.raises(LoginError, match=r"the test's origin did not give a token within 0\.1 s"):
        source_of(origin).token(wait_s=0.1)
    origin.hold.set()


def test_shared_file_is_private_and_follows_the_token(source_of: Callable[[Origin], TokenSource]) -> None:
    origin = Origin(0.4)
    source = source_of(origin)
    file = source.shared_file()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    first, expires_ms = file.read_text().splitlines()
    assert int(expires_ms) / 1000 == pytest.approx(time.time(), abs=2)
    await_tries(origin, 3)
    assert file.read_text().splitlines()[0] != first


def test_equal_settings_share_one_source() -> None:
    assert token_source(TokenProvider("a:b")) is token_source(TokenProvider("a:b"))
    assert token_source(TokenProvider("a:b")) is not token_source(TokenProvider("a:c"))
