"""What README and docs show is real: commands parse and run, JSON and YAML parse, and each name exists in the code.

A block of shell commands starts with a fence of the language `sh`. The test runs it in an empty folder that has `rheostat.yaml` and the
scenarios of the documentation. A block that cannot run there says why: ```sh {not-run="needs a cluster"}. Its commands are parsed all
the same. Output is a block of the language `text`, and a command with its output one of the language `console`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from markdown import Markdown
from markdown_it import MarkdownIt
from pydantic import BaseModel

from docs_build.alerts import read_alerts
from docs_build.reasons import SECTIONS
from rheostat.cli import app
from rheostat.config.settings import Settings, inner_model, item_model
from streaming.shared.metric_defs import ALL as METRICS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SITE_EXTENSIONS = [
    name if isinstance(name, str) else next(iter(name))
    for name in yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["markdown_extensions"]
]
WITHOUT_COMMANDS = ("text", "json", "yaml", "python", "promql", "toml", "java")
# Where one command of a line ends.
SEPARATORS = {"&&", "||", "|", ";", "&", ">", ">>", "2>", "<"}
NOT_METRICS = {"rheostat_json"}  # A format of the collector.
ALERT_NAMES = {rule["alert"] for rule in read_alerts()}
REASONS = {str(reason) for _, _, texts in SECTIONS for reason in texts}


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code on a page. ``language`` is empty for an indented block."""

    page: str
    line: int
    language: str
    not_run: str | None
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def read_blocks(text: str, page: str = "page.md") -> Iterator[Block]:
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type in ("fence", "code_block"):
            language, _, attributes = token.info.strip().partition(" ")
            reason = re.search(r"""\bnot-run=["']([^"']+)["']""", attributes)
            line = token.map[0] + 1 if token.map else 0
            yield Block(page, line, language, reason[1] if reason else None, token.content)


BLOCKS = [
    block
    for path in PAGES
    for block in read_blocks(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix())
]


def of_language(*languages: str) -> list[Block]:
    return [block for block in BLOCKS if block.language in languages]


# -- commands ----------------------------------------------------------------------------------------------------------


def read_commands(block: Block) -> Iterator[list[str]]:
    """Yields the words of each rheostat command of a block, comments and the path of the program left out."""
    for line in block.text.replace("\\\n", " ").splitlines():
        line = line.strip()
        if block.language == "console" and not line.startswith("$ "):
            continue
        line = line.removeprefix("$ ")
        if not re.match(r"(\S*/)?rheostat\b", line) and " rheostat " not in line:
            continue
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
        lexer.whitespace_split = True
        command: list[str] = []
        for word in [*lexer, ";"]:
            if word not in SEPARATORS:
                command.append(word)
                continue
            if command and command[0].rpartition("/")[2] == "rheostat" and not (len(command) == 1 and word == ";"):
                yield ["rheostat", *command[1:]]
            command = []


def parse(words: list[str]) -> None:
    """Parses a command line with the parser of the program.

    Raises:
        ValueError: the command does not exist.
        Exception: of click: an option does not exist, or a value is wrong.
    """
    command: Any = typer.main.get_command(app)
    words, path = words[1:], "rheostat"
    while words and words[0] in getattr(command, "commands", {}):
        command, path, words = command.commands[words[0]], f"{path} {words[0]}", words[1:]
    if "--help" in words or "-h" in words:
        return
    if hasattr(command, "commands") and words and not words[0].startswith("-"):
        raise ValueError(f"{path} has no command {words[0]}")
    command.make_context(path, list(words))


COMMANDS = [
    pytest.param(words, id=f"{block}:{shlex.join(words)}")
    for block in BLOCKS
    if block.language not in WITHOUT_COMMANDS
    for words in read_commands(block)
]


@pytest.mark.parametrize("words", COMMANDS)
def test_documented_command_is_accepted_by_the_parser(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RHEOSTAT_CONFIG", "rheostat.yaml")
    parse(words)


@pytest.mark.parametrize(
    "line", ["rheostat statu", "rheostat status --wacht", "rheostat plan generate --throttle 5parsecs"]
)
def test_wrong_command_is_refused_by_the_parser(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RHEOSTAT_CONFIG", "rheostat.yaml")
    with pytest.raises(Exception, match=r"statu|wacht|parsecs"):
        parse(line.split())


def run(text: str, folder: Path) -> str:
    """Runs shell commands with the programs of this environment; returns what is wrong, or nothing."""
    shutil.copy(ROOT / "conf" / "rheostat.yaml", folder)
    programs = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "RHEOSTAT_CONFIG": "rheostat.yaml"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text.replace(".venv/bin/", "")],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return "" if done.returncode == 0 else f"exit code {done.returncode}: {done.stderr}"


@pytest.mark.parametrize("block", [block for block in of_language("sh") if block.not_run is None], ids=str)
def test_block_of_commands_runs(block: Block, tmp_path: Path) -> None:
    assert run(block.text, tmp_path) == "", f'{block}: correct it, or say why it cannot run: ```sh {{not-run="…"}}'


def test_run_tells_good_commands_from_bad_ones(tmp_path: Path) -> None:
    assert run(".venv/bin/rheostat config check\n", tmp_path) == ""
    assert run("rheostat config check --config absent.yaml\necho after\n", tmp_path).startswith("exit code 2")


def test_reason_for_not_running_is_read() -> None:
    (block,) = read_blocks('```sh {not-run="needs a cluster"}\nrheostat status\n```\n')
    assert (block.language, block.not_run) == ("sh", "needs a cluster")
    (block,) = read_blocks("```sh\nrheostat status\n```\n")
    assert block.not_run is None


def test_commands_are_read_from_blocks() -> None:
    text = "rheostat config check && kill -HUP 1\n.venv/bin/rheostat status \\\n  --watch   # a comment\nmake demo | rheostat x\n"
    block = Block("page.md", 1, "sh", None, text)
    assert [" ".join(words) for words in read_commands(block)] == [
        "rheostat config check", "rheostat status --watch", "rheostat x",
    ]  # fmt: skip
    console = Block("page.md", 1, "console", None, "$ rheostat status\nrheostat says\n")
    assert list(read_commands(console)) == [["rheostat", "status"]]
    assert len(COMMANDS) > 40


# -- values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", of_language("json"), ids=str)
def test_json_block_parses(block: Block) -> None:
    try:
        json.loads(block.text)
    except json.JSONDecodeError:
        for line in block.text.splitlines():
            json.loads(line)


@pytest.mark.parametrize("block", of_language("yaml"), ids=str)
def test_yaml_block_parses_and_its_settings_exist(block: Block) -> None:
    value = yaml.safe_load(block.text)
    if isinstance(value, dict) and set(value) <= set(Settings.model_fields):
        assert unknown_keys(value, Settings) == []


def test_unknown_setting_is_found() -> None:
    assert unknown_keys({"tuner": {"dry_run": True, "dry_rum": True}}, Settings) == ["dry_rum"]
    assert unknown_keys({"tuner": {"mutation_quota": {"tenants": [{"wait": 1}]}}}, Settings) == ["wait"]


def unknown_keys(value: dict[str, Any], model: type[BaseModel]) -> list[str]:
    unknown = [key for key in value if key not in model.model_fields]
    for key in value.keys() - set(unknown):
        annotation = model.model_fields[key].annotation
        nested, item = inner_model(annotation), item_model(annotation)
        if nested is not None and isinstance(value[key], dict):
            unknown += unknown_keys(value[key], nested)
        elif item is not None and isinstance(value[key], list):
            unknown += [name for one in value[key] for name in unknown_keys(one, item)]
    return unknown


# -- the same on the site and in the repository ----------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES[1:], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_page_has_equal_parts_on_site_and_in_repository(path: Path) -> None:
    """The site wants an indent of four spaces inside a list, and a blank line before a list or a fence."""
    text = re.sub(r"\A---\n.*?\n---\n", "", path.read_text(encoding="utf-8"), flags=re.S)
    on_site = Markdown(extensions=SITE_EXTENSIONS).convert(text)
    in_repository = MarkdownIt("commonmark").enable("table").render(text)
    for tag in ("li", "pre", "table", "h2", "h3"):
        assert len(re.findall(f"<{tag}[ >]", on_site)) == len(re.findall(f"<{tag}[ >]", in_repository)), tag


# -- names -------------------------------------------------------------------------------------------------------------


@cache
def setting_paths(model: type[BaseModel] = Settings, prefix: str = "") -> frozenset[str]:
    paths = set()
    for name, field in model.model_fields.items():
        paths.add(f"{prefix}{name}")
        nested = inner_model(field.annotation) or item_model(field.annotation)
        if nested is not None:
            paths |= setting_paths(nested, f"{prefix}{name}.")
    return frozenset(paths)


def prose(path: Path) -> str:
    """The page without its tables of renamed names, which list the old ones."""
    return re.sub(r"^## Renamed .*?(?=^## |\Z)", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)


def unknown_settings(text: str) -> list[str]:
    sections = "|".join(name for name in Settings.model_fields if name not in ("cluster", "limits"))
    named = re.findall(rf"`((?:{sections})\.[a-z0-9_.\[\]]*[a-z0-9_\]])", text)
    known = {path.replace("[]", "") for path in setting_paths()}
    shared = {
        name: re.sub(r"^clusters\.\w+\.", "", name) for name in named
    }  # An entry of `clusters` has the keys of sections.
    return [name for name in named if shared[name].replace("[]", "") not in known]


def unknown_metrics(text: str) -> list[str]:
    known = {metric.name for metric in METRICS} | NOT_METRICS
    named = re.findall(r"\brheostat_[a-z0-9_]+\b", re.sub(r"\b\w+:rheostat_\w+:\w+", "", text))
    return [name for name in named if not {name, re.sub(r"_(bucket|sum|count)$", "", name)} & known]


def unknown_alerts(text: str) -> list[str]:
    linked = re.findall(r"\[(\w+)\]\([^)]*runbook\.md#\w+\)", text)
    told = re.findall(r"\b((?:[A-Z][a-z]+){2,}) in the \[?runbook", text)
    return [name for name in [*linked, *told] if name not in ALERT_NAMES]


def unknown_reasons(text: str) -> list[str]:
    """Reasons that are named as such: ``reason `x` ``, or ``(`x`)`` in a table of reasons."""
    return [name for name in re.findall(r"\breasons? `(\w+)`", text) if name not in REASONS]


PAGE_IDS = [path.relative_to(ROOT).as_posix() for path in PAGES]


@pytest.mark.parametrize("path", PAGES, ids=PAGE_IDS)
def test_names_on_a_page_exist(path: Path) -> None:
    text = prose(path)
    assert unknown_settings(text) == []
    assert unknown_metrics(text) == []
    assert unknown_alerts(text) == []
    assert unknown_reasons(text) == []


def test_unknown_names_are_found() -> None:
    assert unknown_settings("`tuner.dry_run`, `tuner.dry_rum: true`, `stream.sources[].topic`") == ["tuner.dry_rum"]
    assert unknown_settings("`clusters.a.tuner.dry_run`, `clusters.a.tuner.dry_rum`") == ["clusters.a.tuner.dry_rum"]
    assert unknown_metrics("rheostat_build_info, rheostat_build_inf") == ["rheostat_build_inf"]
    assert unknown_alerts("[Nope](../reference/runbook.md#nope), SignalsStalled in the runbook") == [
        "Nope",
        "SignalsStalled",
    ]
    assert unknown_reasons("the reason `paused`, the reason `paussed`") == ["paussed"]


def test_files_of_the_repository_named_on_pages_exist() -> None:
    folders = "conf|dashboards|docs|rheostat|streaming|tuner|benchmarks|tests|docs_build"
    for path in PAGES:
        for name in re.findall(rf"`((?:{folders})/[\w./-]+\.\w+)`", path.read_text(encoding="utf-8")):
            assert name.endswith("NAME.json") or (ROOT / name).exists(), f"{path.relative_to(ROOT)} names {name}"
