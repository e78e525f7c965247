"""Former spellings of commands and options are refused with the new ones."""

from __future__ import annotations

import pytest
from command_rig import Command


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
            "plan PLAN.json --rate 50MB/s",
            "Nothing was done: `rheostat plan PLAN.json` is now `rheostat plan estimate`. "
            "Use `rheostat plan estimate PLAN.json --rate 50MB/s`.",
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


def test_unknown_command_of_group_is_not_taken_for_plan() -> None:
    assert "No such command 'estmate'" in Command("plan").refused("estmate")
