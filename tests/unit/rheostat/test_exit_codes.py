"""Every command ends with the exit code that the table lists for each refusal."""

from __future__ import annotations

import ast
import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from rheostat import cli
from rheostat.console import logs
from rheostat.errors import (
    EXIT_BAD_INPUT,
    EXIT_CODES,
    EXIT_DONE,
    EXIT_FAULT,
    EXIT_INTERRUPTED,
    EXIT_NOT_ACKNOWLEDGED,
    EXIT_NOT_CONFIRMED,
    EXIT_NOT_WELL,
    EXIT_UNREACHABLE,
    CommandError,
)
from rheostat.orders import send
from rheostat.reassign import interrupted, plan_store
from streaming.shared.contract import Side
from tuner.control.throttle.state import Memory, OwnedRate
from tuner.core.operator_orders import Orders
from tuner.core.reassignment_plan import DesiredPlanState, Plan, PlanHead, PlanPartition, PlanState
from tuner.core.throttle_limits import MB

ROOT = Path(__file__).resolve().parents[3]
SETTINGS = (
    "cluster: main\nkafka: {bootstrap_servers: '127.0.0.1:9', request_timeout_s: 1s}\n"
    "stream: {checkpoint_dir: /nonexistent}\ntuner: {rate_bytes_per_s_max: 50MB/s}\n"
)
PLAN = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2]}]}

# What each command needs beside its settings to get as far as the cluster. The cluster's commands first.
WITH_A_CLUSTER: dict[tuple[str, ...], list[str]] = {
    ("run",): [], ("collect",): [], ("stream",): [], ("tune",): [], ("learn",): [], ("status",): [], ("history",): [], ("signals",): [],
    ("replay",): [], ("plan", "estimate"): ["--throttle", "50MB/s"], ("plan", "generate"): ["--rebalance"], ("fetchers",): [],
    ("pause",): [], ("resume",): [], ("override",): ["--broker", "1", "--throttle", "5MB/s"], ("release",): [], ("doctor",): [],
    ("throttles",): [], ("throttles", "clear"): ["--yes"], ("journal", "check"): [], ("journal", "repair"): ["--yes"], ("reassign", "start"): ["PLAN", "--yes"], ("reassign", "status"): [], ("reassign", "pause"): [], ("reassign", "resume"): [],
    ("reassign", "cancel"): [], ("reassign", "limits"): [], ("quotas",): [], ("limits",): [],
    ("quotas", "calibrate"): ["--yes"], ("quotas", "measure"): ["--yes"],
    ("limits", "place"): ["--topic", "t", "--partitions", "1"],
    ("limits", "create"): ["--topic", "t", "--partitions", "1", "--replication", "1"],
    ("limits", "grow"): ["t", "--to", "2"],
}  # fmt: skip
WITHOUT = {
    ("demo",), ("simulate",), ("move",), ("quotas", "explain"), ("quotas", "plan"), ("lab", "up"), ("lab", "down"), ("lab", "keep"),
    ("config", "check"), ("config", "show"), ("config", "schedule"), ("config", "reference"), ("config", "export"),
    ("limits", "policy", "export"), ("limits", "policy", "keep"),
}  # fmt: skip
NOT_ACKNOWLEDGED = [
    ["pause"], ["resume"], ["override", "--broker", "1", "--throttle", "1MB/s"], ["override", "--broker", "1", "--clear"],
    ["reassign", "pause"], ["reassign", "resume"], ["reassign", "cancel"], ["reassign", "cancel", "--no-rollback"],
    ["reassign", "limits", "--none"],
]  # fmt: skip
NOT_CONFIRMED = [
    ["override", "--broker", "1", "--throttle", "20MB/s"], ["release"], ["fetchers", "--apply"], ["throttles", "clear"], ["reassign", "start", "PLAN"],
    ["quotas", "calibrate"], ["quotas", "measure"],
]  # fmt: skip


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            if command.invoke_without_command:
                yield (*path, name)
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


COMMAND = typer.main.get_command(cli.app)  # Once: typer makes all of them again with each call.
ALL = sorted(commands(COMMAND))


@pytest.fixture(autouse=True)
def _process_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restores signal handlers and the log output after each command."""
    monkeypatch.setattr(cli, "app", COMMAND)
    monkeypatch.setattr(logs, "set_up_logs", lambda *_, **__: None)
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def code_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    def run(*arguments: str | Path) -> int:
        monkeypatch.setattr("sys.argv", ["rheostat", *map(str, arguments)])
        with pytest.raises(SystemExit) as ending:
            cli.main()
        assert isinstance(ending.value.code, int)
        return ending.value.code

    return run


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    file = tmp_path / "rheostat.yaml"
    file.write_text(SETTINGS)
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    return file


def arguments(path: tuple[str, ...], settings: Path, *more: str) -> list[str]:
    plan = str(settings.with_name("plan.json"))
    return [
        *path,
        *(plan if one == "PLAN" else one for one in more or WITH_A_CLUSTER.get(path, ())),
        "--config",
        str(settings),
    ]


def test_every_command_is_covered_by_these_tests() -> None:
    assert set(ALL) == WITH_A_CLUSTER.keys() | WITHOUT


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_unknown_option_is_bad_input(path: tuple[str, ...], code_of: Callable[..., int]) -> None:
    assert code_of(*path, "--no-such-option") == EXIT_BAD_INPUT


@pytest.mark.parametrize("path", WITH_A_CLUSTER, ids=" ".join)
def test_settings_that_cannot_be_read_are_bad_input(
    path: tuple[str, ...], code_of: Callable[..., int], settings: Path
) -> None:
    settings.write_text("tuner: [")
    assert code_of(*arguments(path, settings)) == EXIT_BAD_INPUT


@pytest.mark.parametrize("command", [("status",), ("tune",), ("tune", "--wait-for-cluster")], ids=" ".join)
def test_certificate_that_cannot_be_read_is_bad_input(
    command: tuple[str, ...], code_of: Callable[..., int], settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tls = "{security_protocol: SSL, ssl_cafile: /nonexistent/ca.pem, "
    settings.write_text(SETTINGS.replace("kafka: {", f"kafka: {tls}"))
    assert code_of(*command, "--config", settings) == EXIT_BAD_INPUT
    assert "kafka.ssl_cafile: /nonexistent/ca.pem cannot be read: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize("path", WITH_A_CLUSTER, ids=" ".join)
def test_cluster_that_does_not_answer_is_unreachable(
    path: tuple[str, ...], code_of: Callable[..., int], settings: Path
) -> None:
    assert code_of(*arguments(path, settings)) == EXIT_UNREACHABLE


@pytest.fixture
def no_tuner(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster without a tuner, with one managed throttle and one recorded plan."""
    memory = Memory(owned={(1, Side.LEADER): OwnedRate(None, 10 * MB, (10 * MB,))})
    plan = Plan(
        PlanHead("p", "kim", 0, 5, 1, DesiredPlanState.RUNNING),
        {("orders", 0): PlanPartition((1, 2), (2, 3))},
        {},
        PlanState(),
    )
    given = Orders(at_ms=7)
    monkeypatch.setattr("rheostat.run.services.probe", lambda _: None)
    for name, answer in {
        "submit": given, "wait_until_acknowledged": False, "read_orders": send.RecordedOrders(memory=memory), "wrong_cluster_name": None, "why_not_acknowledged": "None runs.",
        "current_rates": {(1, side): 10 * MB for side in Side}, "read_tuners": (),
    }.items():  # fmt: skip
        monkeypatch.setattr(send, name, lambda *_, answer=answer: answer)
    for name, found in {
        "read_plans": plan_store.StoredPlans((plan,)),
        "update_plan": plan.head,
        "wait_until_acknowledged": False,
    }.items():
        monkeypatch.setattr(plan_store, name, lambda *_, found=found, **__: found)


@pytest.mark.parametrize("order", NOT_ACKNOWLEDGED, ids=" ".join)
@pytest.mark.usefixtures("no_tuner")
def test_order_without_a_tuner_is_not_acknowledged(
    order: list[str], code_of: Callable[..., int], settings: Path
) -> None:
    assert code_of(*order, "--config", settings) == EXIT_NOT_ACKNOWLEDGED


@pytest.mark.usefixtures("no_tuner")
def test_pause_at_ctrl_c_without_tuner_is_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupted, "_ask", lambda _: "p")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    nothing: Any = None
    assert interrupted.handle_interrupt(nothing, "p", standalone=False) == EXIT_NOT_ACKNOWLEDGED


@pytest.mark.parametrize("order", NOT_CONFIRMED, ids=" ".join)
@pytest.mark.usefixtures("no_tuner")
def test_dangerous_order_without_terminal_and_yes_is_not_confirmed(
    order: list[str], code_of: Callable[..., int], settings: Path
) -> None:
    assert code_of(*arguments((), settings, *order)) == EXIT_NOT_CONFIRMED


@pytest.mark.parametrize(
    "known", [send.RecordedOrders(), send.RecordedOrders(blocked="a record cannot be read")], ids=["empty", "blocked"]
)
@pytest.mark.usefixtures("no_tuner")
def test_release_asks_though_nothing_is_known_as_owned(
    known: send.RecordedOrders, code_of: Callable[..., int], settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[object] = []
    monkeypatch.setattr(send, "read_orders", lambda *_: known)
    monkeypatch.setattr(send, "submit", lambda *asked: given.append(asked))
    assert code_of("release", "--config", settings) == EXIT_NOT_CONFIRMED
    assert not given


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CommandError("a right is missing"), EXIT_NOT_WELL),
        (RuntimeError("a fault"), EXIT_FAULT),
        (KeyboardInterrupt(), EXIT_INTERRUPTED),
        (EOFError(), EXIT_INTERRUPTED),
        (SystemExit(EXIT_DONE), EXIT_DONE),
    ],
)
def test_each_kind_of_ending_has_its_exit_code(
    error: BaseException, code: int, code_of: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(**_: object) -> None:
        raise error

    monkeypatch.setattr(cli, "app", ends)
    assert code_of() == code


def test_exit_code_table_in_manual_matches_the_program() -> None:
    text = (ROOT / "docs" / "reference" / "exit-codes.md").read_text(encoding="utf-8")
    assert {int(code): meaning for code, meaning in re.findall(r"^\| (\d+) \| (.+) \|$", text, re.M)} == EXIT_CODES


def test_exit_codes_are_named_in_one_file() -> None:
    """No other file ends the program with a literal exit code."""
    for path in sorted((ROOT / "rheostat").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and re.search(r"(^|\.)(exit|Exit|SystemExit)$", ast.unparse(node.func)):
                assert not any(isinstance(given, ast.Constant) for given in node.args), f"{path}:{node.lineno}"
