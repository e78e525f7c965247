"""The generated pages of docs/reference/ are current, and they name everything that the code defines."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from docs_build import __main__ as program
from docs_build.commands import walk_commands
from docs_build.error_cures import CURES, TABLES
from docs_build.errors import GROUPS, collect_messages, command_errors, group_of, pattern_of
from docs_build.page import BEGIN, END, REFERENCE, GeneratedPage, cell, paragraph
from docs_build.reasons import SECTIONS
from streaming.shared.metric_defs import ALL
from tuner.control.mutation_quota.decision import QuotaReason
from tuner.control.reassignment.concurrency_model import ConcurrencyReason
from tuner.control.throttle.decision import Reason
from tuner.core.reassignment_steps import StepReason

PAGE = GeneratedPage("page.md", lambda: "new")


def read(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def test_paragraph_breaks_long_lines_outside_code_spans() -> None:
    code = f"`{'kafka-topics ' * 5}`"
    text = " ".join(["word"] * 30 + [code] + ["word"] * 30)
    lines = paragraph(text).split("\n")
    assert " ".join(lines) == text
    assert len(lines) == 3
    assert all(len(line) <= 160 for line in lines)
    assert sum(code in line for line in lines) == 1


def test_committed_pages_are_current() -> None:
    assert program.main(["--check"]) == 0


def test_check_names_an_outdated_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"before\n{BEGIN}\n\nold\n\n{END}\nafter\n", encoding="utf-8")
    assert program.main(["--check"], tmp_path, [PAGE]) == 1
    assert capsys.readouterr().err == f"{path} is not current: run `make format` and commit the result\n"
    assert program.main([], tmp_path, [PAGE]) == 0
    assert path.read_text(encoding="utf-8") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    assert program.main(["--check"], tmp_path, [PAGE]) == 0


def test_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match=re.escape(f"page.md: expected a line {BEGIN}")):
        PAGE.render("text")


def test_cell_is_one_line_without_bars() -> None:
    assert cell("a |\n b") == "a \\| b"


def test_metrics_page_lists_every_metric() -> None:
    rows = re.findall(r"^\| `(rheostat_\w+)` \|", read("metrics.md"), re.M)
    assert rows == [metric.name for metric in ALL]


@pytest.mark.parametrize("kind", [Reason, QuotaReason, ConcurrencyReason, StepReason])
def test_catalogue_has_every_reason_once(kind: type) -> None:
    listed = [reason for _, _, texts in SECTIONS for reason in texts if isinstance(reason, kind)]
    assert sorted(listed) == sorted(kind)


def test_reasons_page_lists_the_catalogue() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", read("reasons.md"), re.M)
    assert rows == [reason.value for _, _, texts in SECTIONS for reason in texts]


def test_reason_texts_are_phrases_without_full_stop() -> None:
    for _, _, texts in SECTIONS:
        for text in texts.values():
            for phrase in (text.cause, text.effect, text.advice):
                assert phrase
                assert phrase[0].islower()
                assert not phrase.endswith(".")


def test_commands_page_has_every_command_with_its_options() -> None:
    page = read("commands.md")
    commands = dict(walk_commands())
    assert re.findall(r"^## (rheostat .*)$", page, re.M) == list(commands)
    for path, command in commands.items():
        section = page.partition(f"## {path}\n")[2].partition("\n## ")[0]
        for parameter in command.params:
            options = [name for name in parameter.opts if name.startswith("-") and name != "--help"]
            assert all(f"`{name}" in section for name in options), (path, options)


def test_errors_page_has_every_message_with_a_cure() -> None:
    headings = {heading.strip("` ") for heading in re.findall(r"^### (.*)$", read("errors.md"), re.M)}
    patterns = {message.pattern for message in collect_messages()}
    assert headings == {pattern.strip("` ") for pattern in patterns}
    assert len(patterns) > 200
    unused = {part for part in CURES if not any(part in pattern for pattern in patterns)}
    assert not unused, "a cure belongs to a message that no longer exists"
    assert sum(map(len, TABLES)) == len(CURES), "two tables have a cure for the same part of a message"
    assert all(message.cure for message in collect_messages())


def test_every_message_has_a_group_of_its_own() -> None:
    assert GROUPS[-1][1] == ("",)
    assert group_of("rheostat/reassign/command.py") == "rheostat reassign"
    assert group_of("rheostat/renamed.py") == "Any command"


@pytest.mark.parametrize(
    ("expression", "pattern"),
    [
        ('"no words: A"', "no words: A"),
        ('f"{path}: cannot be read: {error.strerror or error}"', "PATH: cannot be read: …"),
        ('f"Plan {self.plan.id} has  ended"', "Plan ID has ended"),
        ('f"more than {LIMIT}"', "more than 3"),
        ('f"{at}: expected {expected}, found {shown}{hint}"', "FILE:LINE: KEY: …: expected …, found …"),
        ('f"{topic} cannot be read: {type(error).__name__}: {error}"', "TOPIC cannot be read: …: ERROR"),
        ('f"it runs on {host}{port}. Active plans: {names()}."', "it runs on …. Active plans: …"),
        ("str(error)", None),
        ('f"{a}: {b}"', None),
    ],
)
def test_message_pattern_replaces_variable_parts(expression: str, pattern: str | None) -> None:
    assert pattern_of(ast.parse(expression, mode="eval").body, {"LIMIT": 3}) == pattern


def test_command_errors_are_found_through_their_bases() -> None:
    tree = ast.parse(
        "class CommandError(Exception): ...\nclass A(CommandError): ...\nclass B(A): ...\nclass C(Exception): ..."
    )
    assert command_errors([tree]) == {"CommandError", "A", "B"}
