"""Answers of vetoes: JSON of any service and results of Prometheus, and everything that is neither."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.runtime.external.http_client import FailureKind, NoAnswer
from tuner.runtime.external.veto_answers import VetoAnswer, read_answer
from tuner.settings.external import VetoSettings


def http(**more: Any) -> VetoSettings:
    return VetoSettings(name="v", url="http://localhost/veto", **more)


def promql(**more: Any) -> VetoSettings:
    return VetoSettings(name="v", prometheus="http://localhost:9090", query="up", **more)


def vector(*values: str) -> bytes:
    result = [{"metric": {}, "value": [1.0, value]} for value in values]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


def scalar(value: str) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": "scalar", "result": [1.0, value]}}).encode()


@pytest.mark.parametrize(
    ("settings", "body", "vetoes"),
    [
        (http(), b'{"veto": true}', True),
        (http(), b'{"veto": false, "cause": "well"}', False),
        (http(above=0.5), b'{"value": 0.6}', True),
        (http(above=0.5), b'{"value": 0.5}', False),
        (http(below=0.5), b'{"value": "0.4"}', True),
        (promql(), vector(), False),
        (promql(), vector("0"), True),
        (promql(above=1), vector("0.5", "1"), False),
        (promql(above=1), vector("0.5", "1.1"), True),
        (promql(above=1), vector("NaN", "1.1"), True),
        (promql(below=1), scalar("0.9"), True),
    ],
)
def test_valid_answer_is_compared_with_the_threshold(settings: VetoSettings, body: bytes, vetoes: bool) -> None:
    assert read_answer(body, settings).vetoes is vetoes


@pytest.mark.parametrize(
    ("settings", "body", "kind"),
    [
        (http(), b"<html>", FailureKind.NOT_JSON),
        (http(), b"\xff\xfe", FailureKind.NOT_JSON),
        (http(), b"[" * 100_000, FailureKind.NOT_JSON),
        (http(), b"[]", FailureKind.NO_VALUE),
        (http(), b'{"veto": "true"}', FailureKind.NO_VALUE),
        (http(), b'{"veto": 1}', FailureKind.NO_VALUE),
        (http(above=1), b'{"veto": true}', FailureKind.NO_VALUE),
        (http(above=1), b'{"value": NaN}', FailureKind.NOT_A_NUMBER),
        (http(above=1), b'{"value": Infinity}', FailureKind.NOT_A_NUMBER),
        (http(above=1), b'{"value": 1e999}', FailureKind.NOT_A_NUMBER),
        (http(above=1), b'{"value": true}', FailureKind.NOT_A_NUMBER),
        (http(above=1), b'{"value": null}', FailureKind.NOT_A_NUMBER),
        (http(above=1), b'{"value": ' + b"9" * 4000 + b"}", FailureKind.NOT_A_NUMBER),
        (promql(above=1), vector(), FailureKind.NO_VALUE),
        (promql(above=1), vector("NaN", "0"), FailureKind.NOT_A_NUMBER),
        (promql(above=1), scalar("+Inf"), FailureKind.NOT_A_NUMBER),
        (promql(), b'{"status": "error", "error": "parse error"}', FailureKind.NO_VALUE),
        (promql(), b'{"status": "success", "data": {"resultType": "matrix", "result": []}}', FailureKind.NO_VALUE),
        (promql(), b'{"status": "success", "data": {"resultType": "vector", "result": [1]}}', FailureKind.NO_VALUE),
        (promql(), b'{"status": "success", "data": {"resultType": "vector"}}', FailureKind.NO_VALUE),
    ],
)
def test_answer_that_is_not_valid_is_unknown(settings: VetoSettings, body: bytes, kind: FailureKind) -> None:
    with pytest.raises(NoAnswer) as caught:
        read_answer(body, settings)
    assert caught.value.kind is kind


def test_cause_of_a_service_is_one_short_printable_line() -> None:
    body = json.dumps({"veto": True, "cause": "deploy\x1b[2J\nruns" + "x" * 5000}).encode()
    cause = read_answer(body, http()).cause
    assert cause.startswith("deploy [2J runs")
    assert cause.isprintable()
    assert len(cause) == 200


@given(body=st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_hostile_body_is_an_answer_or_unknown(body: bytes) -> None:
    for settings in (http(), http(above=1), promql(), promql(below=1)):
        try:
            answer = read_answer(body, settings)
        except NoAnswer:
            continue
        assert isinstance(answer, VetoAnswer)
