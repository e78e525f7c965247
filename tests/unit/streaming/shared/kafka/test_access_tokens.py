"""Tokens from an endpoint, a file and a function: valid ones are returned, and each fault is named in one sentence."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from oauth_kit import CLIENT, SECRET, SigningKey, TokenServer

from streaming.shared.kafka import access_tokens
from streaming.shared.kafka.access_tokens import TokenEndpoint, TokenFile, TokenProvider
from streaming.shared.kafka.secrets import LoginError, SecretFile

KEY = SigningKey("one")


@pytest.fixture
def server() -> Iterator[TokenServer]:
    with TokenServer(KEY).serving() as serving:
        yield serving


def endpoint(server: TokenServer, secret: str | SecretFile = SECRET, scope: str | None = None) -> TokenEndpoint:
    return TokenEndpoint(f"{server.url}/token", CLIENT, secret, scope)


def refusal(origin: TokenEndpoint | TokenFile | TokenProvider) -> str:
    with pytest.raises(LoginError) as raised:
        origin.fetch()
    text = str(raised.value)
    assert "\n" not in text
    assert SECRET not in text
    return text


def test_endpoint_gives_token_with_its_expiry(server: TokenServer) -> None:
    token = endpoint(server, scope="kafka.all").fetch()
    assert token.value.count(".") == 2
    assert token.expires_s == pytest.approx(time.time() + 60, abs=5)
    assert server.scopes == ["kafka.all"]


def test_client_secret_is_read_again_from_its_file(server: TokenServer, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("an old secret\n")
    origin = endpoint(server, SecretFile("sasl_oauth_client_secret_file", str(file)))
    assert "answers with the status 401 (invalid_client)" in refusal(origin)
    file.write_text(f"{SECRET}\n")
    assert origin.fetch().value
    file.unlink()
    assert refusal(origin) == f"kafka.sasl_oauth_client_secret_file: {file} cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("500", "answers with the status 500"),
        ("500 resets", "answers with the status 500"),
        ("deep", "does not answer with JSON: check the path of the URL"),
        ("huge expiry", "does not say when it expires"),
        ("garbage", "does not answer with JSON: check the path of the URL"),
        ("empty", "answers without an access_token: check the path of the URL"),
        ("redirect", "answers with the status 302"),
        ("drop", "does not answer as an HTTP server: RemoteDisconnected"),
        ("expired", "gives a token that expired 30 s ago"),
    ],
)
def test_endpoint_fault_is_named(server: TokenServer, mode: str, why: str) -> None:
    server.mode = mode
    text = refusal(endpoint(server))
    assert text.startswith(f"kafka.sasl_oauth_token_endpoint: {server.url}/token")
    assert why in text


@pytest.mark.parametrize("mode", ["hang", "drip"])
def test_slow_endpoint_is_given_up(server: TokenServer, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setattr(access_tokens, "REQUEST_S_MAX", 0.3)
    server.mode = mode
    assert refusal(endpoint(server)).endswith("did not answer within 0.3 s")


@pytest.mark.parametrize("mode", ["500 stalls", "500 drips"])
def test_slow_body_of_an_error_keeps_its_status(
    server: TokenServer, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(access_tokens, "REQUEST_S_MAX", 0.3)
    server.mode = mode
    began_s = time.monotonic()
    assert refusal(endpoint(server)).endswith("answers with the status 500")
    assert time.monotonic() - began_s < 5


def test_closed_port_and_unknown_host_are_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert "cannot be reached: Connection refused" in refusal(
        TokenEndpoint(f"http://127.0.0.1:{port}/token", CLIENT, SECRET)
    )


def test_unusable_cafile_is_named(server: TokenServer, tmp_path: Path) -> None:
    origin = TokenEndpoint(server.url, CLIENT, SECRET, cafile=str(tmp_path / "gone"))
    assert f"kafka.sasl_oauth_cafile: {tmp_path / 'gone'} cannot be used" in refusal(origin)


def test_token_file_is_read_at_each_login(tmp_path: Path) -> None:
    file = tmp_path / "token"
    origin = TokenFile(str(file))
    file.write_text(first := KEY.token())
    assert origin.fetch().value == first
    file.write_text((second := KEY.token("another")) + "\n")
    assert origin.fetch().value == second


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "must have one line, the secret, and has 0"),
        (b"one\ntwo\n", "must have one line, the secret, and has 2"),
        (b"opaque", "does not say when it expires"),
        (b"a.b.c", "does not say when it expires"),
        (b"with\x01control", "gives no token"),
        (b"\xff\xfe", "is not UTF-8 text (byte 0)"),
    ],
)
def test_unusable_token_file_is_named(tmp_path: Path, content: bytes, why: str) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    text = refusal(TokenFile(str(file)))
    assert text.startswith(f"kafka.sasl_oauth_token_file: {file}")
    assert why in text


def test_expired_token_in_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(KEY.token(lifetime_s=-100))
    assert "gives a token that expired 100 s ago" in refusal(TokenFile(str(tmp_path / "token")))


@pytest.mark.parametrize("expiry", [float("inf"), float("nan"), None, 10**400])
def test_absurd_expiry_is_refused(tmp_path: Path, expiry: float | None) -> None:
    (tmp_path / "token").write_text(KEY.token(exp=expiry))
    assert "does not say when it expires" in refusal(TokenFile(str(tmp_path / "token")))


def test_token_of_a_century_is_fetched_again_within_a_day(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(KEY.token(lifetime_s=3e9))
    assert TokenFile(str(tmp_path / "token")).fetch().expires_s < time.time() + 86_401


def test_unreadable_token_file_is_named(tmp_path: Path) -> None:
    assert (
        refusal(TokenFile(str(tmp_path))) == f"kafka.sasl_oauth_token_file: {tmp_path} cannot be read: Is a directory"
    )


MODULE = """
import time

def pair():
    return "opaque", (time.time() + 900) * 1000

def broken():
    raise RuntimeError("no credentials\\nof AWS")

def number():
    return 7

value = "text"
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "our_signer.py").write_text(MODULE)
    (tmp_path / "our_broken_signer.py").write_text("import missing_package_of_the_test")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "our_signer"


def test_function_may_return_token_and_expiry(module: str) -> None:
    token = TokenProvider(f"{module}:pair").fetch()
    assert token.value == "opaque"
    assert token.expires_s == pytest.approx(time.time() + 900, abs=5)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("our_signer:broken", "raised RuntimeError: no credentials of AWS"),
        ("our_signer:number", "must return a token, or a pair of a token and its expiry in epoch ms"),
        ("our_signer:value", "is not a function"),
        ("our_signer:gone", "cannot be imported (AttributeError: "),
        ("our_missing_signer:sign", "cannot be imported (ModuleNotFoundError: "),
        ("our_broken_signer:sign", "No module named 'missing_package_of_the_test'"),
    ],
)
def test_function_fault_is_named(module: str, function: str, why: str) -> None:
    text = refusal(TokenProvider(function))
    assert text.startswith(f"kafka.sasl_oauth_token_provider: {function} ")
    assert why in text
