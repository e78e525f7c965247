"""Former spellings of commands and options are refused with the new ones."""

from __future__ import annotations

import pytest
import typer
from command_rig import Command

from rheostat.cli import app
from rheostat.renamed import RENAMED_OPTIONS


@pytest.mark.parametrize(
    ("former", "refusal"),
    [
        (
            "move --drain-broker 2 -c x.yaml",
            "Nothing was done: `rheostat move` is now `rheostat plan generate`. "
            "Use `rheostat plan generate --drain-broker 2 -c x.yaml`.",
        ),
        ("move --help", "`rheostat plan generate --help`"),
        (
            "plan PLAN.json --throttle 50MB/s",
            "Nothing was done: `rheostat plan PLAN.json` is now `rheostat plan estimate`. "
            "Use `rheostat plan estimate PLAN.json --throttle 50MB/s`.",
        ),
        ("plan --within 2h PLAN.json", "`rheostat plan estimate --within 2h PLAN.json`"),
        (
            "reassign PLAN.json --yes",
            "Nothing was done: `rheostat reassign PLAN.json` is now `rheostat reassign start`. "
            "Use `rheostat reassign start PLAN.json --yes`.",
        ),
        ("reassign -c x.yaml plans/drain", "`rheostat reassign start -c x.yaml plans/drain`"),
        ("reassign plan PLAN.json", "`rheostat reassign start PLAN.json`"),
        ("reassign start PLAN.json --here", "Nothing was done: --here is now --standalone. Use --standalone."),
        ("reassign cancel --leave", "Nothing was done: --leave is now --no-rollback. Use --no-rollback."),
    ],
)
def test_former_spelling_is_refused_with_new_one(former: str, refusal: str) -> None:
    command, *arguments = former.split()
    assert refusal in Command(command).refused(*arguments)


OPTIONS = [
    (command, former, option) for command, options in RENAMED_OPTIONS.items() for former, option in options.items()
]


@pytest.mark.parametrize(("command", "former", "option"), OPTIONS)
@pytest.mark.parametrize("value", ["", "=5"])
def test_former_option_is_refused_with_new_name(command: str, former: str, option: str, value: str) -> None:
    refusal = Command(command).refused("--config", "x.yaml", f"{former}{value}")
    assert refusal == f"Nothing was done: {former} is now {option}. Use {option}."


@pytest.mark.parametrize(("command", "former", "option"), OPTIONS)
def test_new_name_exists_and_former_one_does_not(command: str, former: str, option: str) -> None:
    parser = typer.main.get_command(app)
    for word in command.split():
        parser = parser.commands[word]  # type: ignore[attr-defined]  # it is a group
    names = {name for parameter in parser.params for name in parameter.opts}
    assert option in names
    assert former not in names


def test_former_name_after_two_dashes_is_an_argument() -> None:
    assert "is now" not in Command("plan estimate").run("--", "--rate").output


def test_unknown_command_of_group_is_not_taken_for_plan() -> None:
    assert "No such command 'estmate'" in Command("plan").refused("estmate")
