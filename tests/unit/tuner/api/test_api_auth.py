"""Tokens: the caller of each token, messages about a faulty file, and that no message contains a token."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tuner.api.auth import (
    ApiCaller,
    ApiRole,
    CredentialsError,
    Tokens,
    find_caller,
    make_token,
    parse_tokens,
    token_problem,
)

KIM, GRAFANA = "kim-3f9c0123456789ab", "grafana-0123456789ab"
FILE = f"# who may what\n\noperate kim {KIM}\n  read grafana {GRAFANA}\n"


def test_find_caller_returns_owner_of_exact_token_only() -> None:
    known = parse_tokens(FILE, "tokens")
    assert find_caller(KIM, known) == ApiCaller("kim", ApiRole.OPERATE)
    assert find_caller(GRAFANA, known) == ApiCaller("grafana", ApiRole.READ)
    assert find_caller(KIM[:-1], known) is None
    assert find_caller("", known) is None
    assert find_caller("gärten\udcff", known) is None


def test_operate_role_covers_read_role() -> None:
    assert ApiRole.OPERATE.covers(ApiRole.READ)
    assert ApiRole.OPERATE.covers(ApiRole.OPERATE)
    assert ApiRole.READ.covers(ApiRole.READ)
    assert not ApiRole.READ.covers(ApiRole.OPERATE)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("operate kim\n", "tokens:1: expected a role, a name and a token, found 2 words"),
        (f"# x\nadmin kim {KIM}\n", "tokens:2: the first word must be the role: read or operate"),
        ("read kim short-secret\n", "tokens:1: the token of kim has fewer than 16 characters"),
        (f"read kim {KIM}ü\n", "tokens:1: the token of kim has spaces or characters outside ASCII"),
        (f"read kim {KIM}\noperate li {KIM}\n", "tokens:2: the token of li occurs twice"),
        (f"read {'k' * 65} {KIM}\n", "tokens:1: the second word must be a name of at most 64 letters"),
        ("# nobody\n", "tokens: holds no token"),
    ],
)
def test_token_file_error_names_line_and_hides_token(text: str, said: str) -> None:
    with pytest.raises(CredentialsError) as caught:
        parse_tokens(text, "tokens")
    assert str(caught.value).startswith(said)
    assert KIM not in str(caught.value)
    assert "short-secret" not in str(caught.value)


def test_token_needs_16_characters_without_spaces() -> None:
    assert token_problem("x" * 16) is None
    assert "16" in (token_problem("x" * 15) or "")
    assert "spaces" in (token_problem("x" * 16 + " ") or "")


def test_unreadable_token_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="gone: cannot be read: No such file"):
        Tokens(file=str(tmp_path / "gone"))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(CredentialsError, match="not UTF-8"):
        Tokens(file=str(tmp_path / "bytes"))


def test_changed_token_file_is_reloaded_unless_broken(tmp_path: Path) -> None:
    now_s = [0.0]
    file = tmp_path / "tokens"
    file.write_text(f"operate kim {KIM}\n")
    tokens = Tokens((make_token(GRAFANA, "grafana", ApiRole.READ),), str(file), monotonic=lambda: now_s[0])
    assert tokens.are_configured
    assert tokens.can_operate
    assert tokens.find(GRAFANA) == ApiCaller("grafana", ApiRole.READ)

    def changed(text: str) -> None:
        file.write_text(text)
        os.utime(file, ns=(0, round(now_s[0] * 1e9) + 1))
        now_s[0] += 5

    changed("operate kim\n")
    assert tokens.find(KIM) == ApiCaller("kim", ApiRole.OPERATE)
    changed("read li li-0123456789abcdef\n")
    assert tokens.find(KIM) is None
    assert tokens.find("li-0123456789abcdef") == ApiCaller("li", ApiRole.READ)
    assert not tokens.can_operate


def test_empty_tokens_require_no_token() -> None:
    assert not Tokens().are_configured
    assert not Tokens().can_operate
