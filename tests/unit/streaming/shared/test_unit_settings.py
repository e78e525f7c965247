"""Values with units: in the settings file and the environment, and rates on the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

import click
import pytest
import typer
from pydantic import BaseModel
from typer.testing import CliRunner

from rheostat.cli import app
from rheostat.config.settings import Settings, inner_model, item_model, parse_settings
from rheostat.errors import BadInputError
from streaming.shared.unit_settings import UnitHint

HEAD = "cluster: c\nkafka: {bootstrap_servers: 'a:1'}\n"
TUNER = "tuner: {rate_bytes_per_s_max: 50MB/s}\n"
STREAM = "stream: {checkpoint_dir: /x}\n"


def parsed(text: str, environ: dict[str, str] | None = None) -> Settings:
    return parse_settings(HEAD + text, "f.yaml", environ or {})


def test_settings_with_units_equal_those_in_plain_numbers() -> None:
    units = parsed(
        "stream: {checkpoint_dir: /x, window_s: 1min, slide_s: 10s, trigger_ms: 1s, driver_memory_mb: 2GiB, backfill_after_s: 5min}\n"
        "collector: {interval_s: 10s, timeout_s: 1500ms, spread_s: 0s}\n"
        "tuner: {rate_bytes_per_s_max: 10Gbit/s, external_change_hold_s: 2h, objective: {latency_ms: 50ms},"
        " capacity: {in_bytes_per_s: 1GB/s, out_bytes_per_s: 1GiB/s, brokers: {7: {in_bytes_per_s: 9MB/s, out_bytes_per_s: 9MB/s}}}}\n"
    )
    plain = parsed(
        "stream: {checkpoint_dir: /x, window_s: 60, slide_s: 10, trigger_ms: 1000, driver_memory_mb: 2048, backfill_after_s: 300}\n"
        "collector: {interval_s: 10, timeout_s: 1.5, spread_s: 0}\n"
        "tuner: {rate_bytes_per_s_max: 1_250_000_000, external_change_hold_s: 7200, objective: {latency_ms: 50},"
        " capacity: {in_bytes_per_s: 1_000_000_000, out_bytes_per_s: 1073741824,"
        " brokers: {7: {in_bytes_per_s: 9_000_000, out_bytes_per_s: 9_000_000}}}}\n"
    )
    assert units == plain


@pytest.mark.parametrize(("text", "value"), [("60MB/s", 60e6), ("60000000", 60e6), ("6e7", 6e7)])
def test_environment_takes_units_and_plain_numbers(text: str, value: float) -> None:
    settings = parsed(STREAM + TUNER, {"RHEOSTAT_TUNER__RATE_BYTES_PER_S_MAX": text})
    assert settings.tuner.rate_bytes_per_s_max == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (STREAM + "tuner: {rate_bytes_per_s_max: 50Mb/s}\n",
         "f.yaml:4: tuner.rate_bytes_per_s_max: expected a rate such as 50MB/s, 1.5GiB/s, 10Gbit/s, or a plain number of bytes/s, "
         "found '50Mb/s' (MB is bytes, Mbit/s is bits)"),
        (STREAM + "tuner:\n  rate_bytes_per_s_max: 50MB/s\n  external_change_hold_s: soon\n", "f.yaml:6: tuner.external_change_hold_s: expected a time such as 90s"),
        ("stream: {checkpoint_dir: /x, window_s: 1500ms}\n" + TUNER, "f.yaml:3: stream.window_s: input should be a valid integer"),
        ("stream: {checkpoint_dir: /x, window_s: 1h}\n" + TUNER, "f.yaml:3: stream.window_s: input should be less than or equal to 600"),
        ("stream: {checkpoint_dir: /x, driver_memory_mb: 2Gb}\n" + TUNER, "f.yaml:3: stream.driver_memory_mb: expected a size such as"),
        (STREAM + "tuner: {rate_bytes_per_s_max: .inf}\n", "f.yaml:4: tuner.rate_bytes_per_s_max: input should be a finite number"),
    ],
)  # fmt: skip
def test_settings_with_a_wrong_unit_name_key_and_line(text: str, message: str) -> None:
    with pytest.raises(BadInputError) as error:
        parsed(text)
    assert str(error.value).startswith(message)
    assert str(error.value).count("found ") <= 1


CAPACITY = "objective: {latency_ms: 50}, capacity: {in_bytes_per_s: 400, out_bytes_per_s: 9MB/s}"
PLAIN = "without a unit is"


@pytest.mark.parametrize(
    ("text", "key", "number"),
    [
        (STREAM + "tuner: {rate_bytes_per_s_max: 50, rate_bytes_per_s_min: 5MB/s}\n", "rate_bytes_per_s_max", "50"),
        (STREAM + "tuner: {rate_bytes_per_s_max: '50', rate_bytes_per_s_min: 1B/s}\n", "rate_bytes_per_s_max", "50"),
        (STREAM + "tuner: {rate_bytes_per_s_max: 50MB/s, rate_bytes_per_s_min: 0.5}\n", "rate_bytes_per_s_min", "0.5"),
        (STREAM + "tuner: {rate_bytes_per_s_max: 50MB/s, " + CAPACITY + "}\n", "capacity.in_bytes_per_s", "400"),
    ],
)  # fmt: skip
def test_small_rate_without_a_unit_is_refused_with_its_meaning(text: str, key: str, number: str) -> None:
    with pytest.raises(BadInputError) as error:
        parsed(text)
    assert f"f.yaml:4: tuner.{key}: {number} {PLAIN} {number} B/s; did you mean {number}MB/s?" in str(error.value)


def test_small_rate_without_a_unit_in_the_environment_is_refused() -> None:
    with pytest.raises(
        BadInputError, match=r"RHEOSTAT_TUNER__RATE_BYTES_PER_S_MAX: tuner\.rate_bytes_per_s_max: 50 without"
    ):
        parsed(STREAM + TUNER, {"RHEOSTAT_TUNER__RATE_BYTES_PER_S_MAX": "50"})


def test_small_rates_with_a_unit_are_accepted_from_1_byte() -> None:
    small = "tuner: {rate_bytes_per_s_max: 50B/s, rate_bytes_per_s_min: 1B/s}\n"
    assert parsed(STREAM + small).tuner.rate_bytes_per_s_max == 50
    for rate in ("0.5B/s", "0"):
        with pytest.raises(
            BadInputError, match=r"tuner\.rate_bytes_per_s_max: input should be greater than or equal to 1"
        ):
            parsed(STREAM + f"tuner: {{rate_bytes_per_s_max: {rate}}}\n")


def test_environment_with_a_wrong_unit_names_the_variable() -> None:
    with pytest.raises(
        BadInputError,
        match=r"environment: RHEOSTAT_TUNER__EXTERNAL_CHANGE_HOLD_S: tuner.external_change_hold_s: expected a time",
    ):
        parsed(STREAM + TUNER, {"RHEOSTAT_TUNER__EXTERNAL_CHANGE_HOLD_S": "2 fortnights"})


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, field in model.model_fields.items():
        inner = inner_model(field.annotation) or item_model(field.annotation)
        if inner is not None:
            yield from fields(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", field


def takes_units(field: Any) -> bool:
    inner = (value for option in get_args(field.annotation) for value in get_args(option))
    return any(isinstance(value, UnitHint) for value in (*field.metadata, *inner))


def test_every_rate_size_and_time_key_takes_units() -> None:
    unit = re.compile(r"_(s|ms|mb)(_max|_min)?$|_bytes")
    named = {name for name, _ in fields(Settings) if unit.search(name)}
    of_requests = {name for name in named if "writes_per_s" in name or "rate_per_s" in name}
    assert {name for name, field in fields(Settings) if takes_units(field)} == named - of_requests


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


RATES = [
    (path, max(option.opts, key=len))
    for path, command in commands(typer.main.get_command(app))
    for option in command.params
    if option.metavar == "RATE" and path[0] != "quotas"  # Those are partitions/s.
]


def test_commands_with_rates_are_found() -> None:
    assert {path for path, _ in RATES} >= {("override",), ("plan", "estimate"), ("plan", "generate"), ("fetchers",)}


@pytest.mark.parametrize(
    ("path", "option"), RATES, ids=lambda value: " ".join(value) if isinstance(value, tuple) else value
)
def test_rate_without_a_unit_below_1_kb_is_refused(path: tuple[str, ...], option: str) -> None:
    done = CliRunner().invoke(app, [*path, option, "50"])
    text = " ".join(click.unstyle(done.output).replace("│", " ").split())
    assert done.exit_code == 2
    assert "50 without a unit is 50 B/s; did you mean 50MB/s?" in text
