"""Property-based tests never fail for lack of time, and every failure can be repeated from its log."""

from __future__ import annotations

import ast
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import engine

TESTS = sorted(Path(__file__).resolve().parent.rglob("test_*.py"))


def test_hypothesis_default_has_no_deadline() -> None:
    assert settings.default is not None
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check
    assert settings.default.print_blob


def test_hypothesis_shrinking_ends_before_the_test_timeout(request: pytest.FixtureRequest) -> None:
    assert settings.default is not None
    assert Phase.explain not in settings.default.phases
    assert timedelta(seconds=engine.MAX_SHRINKING_SECONDS) < timedelta(
        seconds=float(request.config.getini("timeout")) / 2
    )


def test_hypothesis_failure_names_the_drawn_values() -> None:
    @settings(database=None)
    @given(st.just(17))
    def drawn(number: int) -> None:
        assert number != 17

    with pytest.raises(AssertionError) as failed:
        drawn()
    assert "number=17" in "\n".join(failed.value.__notes__)


def test_hypothesis_own_settings_keep_the_defaults() -> None:
    @settings(max_examples=1)
    @given(st.none())
    def drawn(_: None) -> None: ...

    assert drawn._hypothesis_internal_use_settings.deadline is None  # type: ignore[attr-defined]


def test_hypothesis_tests_set_no_deadline() -> None:
    asked = [
        f"{path.name}:{keyword.value.lineno}"
        for path in TESTS
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "settings"
        for keyword in call.keywords
        if keyword.arg == "deadline" and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is None)
    ]
    assert asked == []
