"""`rheostat limits policy keep`: the file is replaced as a whole or not at all, and errors are logged once."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_rig import Command
from structlog.testing import capture_logs
from test_settings import GOOD

from rheostat.errors import CommandError
from rheostat.limits.policy.keeper import EVERY_S_MAX, EVERY_S_MIN, Count, Keeper, pause_s, usable_for_s
from rheostat.limits.policy.limits_file import USABLE_S_MAX, is_limits_file, render_limits_file
from tuner.core.partition_limits import PartitionCounts, PartitionLimits

refused = Command("limits").refused


class Counts:
    """Returns one answer after another; an error is raised."""

    def __init__(self, *answers: Count | CommandError) -> None:
        self.answers = list(answers)

    def __call__(self) -> Count:
        answer = self.answers.pop(0)
        if isinstance(answer, CommandError):
            raise answer
        return answer


AWAY = CommandError("No broker answers at kafka:9092.")


def test_failed_count_keeps_the_file_and_is_logged_once(tmp_path: Path) -> None:
    file = tmp_path / "limits.properties"
    keeper = Keeper(file, Counts(Count("first", 1), AWAY, AWAY, Count("second", 2), Count("third", 3)))
    with capture_logs() as lines:
        contents = []
        for _ in range(5):
            keeper.try_write()
            contents.append(file.read_text())
    assert contents == ["first", "first", "first", "second", "third"]
    assert [line["log_level"] for line in lines] == ["info", "error", "info"]
    assert lines[1]["error"] == str(AWAY)
    assert [path.name for path in tmp_path.iterdir()] == [file.name], "no temporary file is left"


def test_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "limits.properties"
    folder.mkdir()
    with pytest.raises(CommandError, match=r"limits\.properties cannot be written") as error:
        Keeper(folder, Counts(Count("first", 1))).write()
    assert error.value.exit_code == 1


def test_counts_are_usable_for_ten_rounds_and_five_minutes() -> None:
    assert usable_for_s(EVERY_S_MIN) == 300
    assert usable_for_s(60) == 600
    assert usable_for_s(EVERY_S_MAX) == USABLE_S_MAX


@pytest.mark.parametrize(("count_s", "expected_s"), [(0.1, 15.0), (3.0, 27.0), (60.0, 75.0)])
def test_slow_counts_are_less_frequent_but_never_too_old(count_s: float, expected_s: float) -> None:
    assert pause_s(15.0, count_s) == expected_s
    assert 2 * count_s + expected_s < usable_for_s(15.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["policy", "keep", "f", "-c", "none.yaml", "--every", "1s"], "--every: expected 5 s to 360 s, found 1 s"),
        (["policy", "keep", "f", "-c", "none.yaml", "--every", "2h"], "found 7200 s"),
        (["policy", "keep", "none/f", "-c", "none.yaml"], "FILE: the folder none does not exist"),
        (["policy", "keep", "f", "-c", "none.yaml"], "none.yaml: cannot be read"),
        (["policy", "keep", "-c", "none.yaml"], "Missing argument"),
        (["policy", "export"], "Missing argument"),
        (["grow", "-c", "none.yaml", "orders"], "--to"),
        (["grow", "-c", "none.yaml", "a/b", "--to", "3"], "TOPIC: expected 1 to 249 letters, digits"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments: list[str], message: str) -> None:
    assert message in " ".join(refused(*arguments).replace("│", " ").split())


def test_settings_without_a_limit_are_refused(tmp_path: Path) -> None:
    config = tmp_path / "rheostat.yaml"
    config.write_text(GOOD)
    text = refused("policy", "keep", str(tmp_path / "limits.properties"), "-c", str(config))
    assert "limits: no limit is set, so the policy would refuse nothing" in " ".join(text.split())


def test_file_that_is_no_limits_file_is_not_replaced(tmp_path: Path) -> None:
    config = tmp_path / "rheostat.yaml"
    config.write_text(f"{GOOD}limits: {{preset: kafka}}\n")
    before = config.read_text()
    for file in (config, tmp_path, Path("/dev/null")):
        text = " ".join(refused("policy", "keep", str(file), "-c", str(config), "--once").split())
        assert f"{file} exists and is no limits file, so it is not replaced" in text.replace("\n", "")
    assert config.read_text() == before


@pytest.mark.parametrize("content", ["", "\0\0\0", "rendered"])
def test_limits_file_of_an_earlier_run_may_be_replaced(content: str) -> None:
    if content == "rendered":
        content = render_limits_file(PartitionCounts({1: 8}), (1,), PartitionLimits(10, 20), 1, 300)
    assert is_limits_file(content.encode())
