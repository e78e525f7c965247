"""`rheostat config export`: what it writes, and that it keeps the changes of operators."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path, PurePosixPath

import pytest
import yaml
from typer.testing import CliRunner

from rheostat.cli import app
from rheostat.config.export import ACLS_FILE, LIST_FILE, ExportedFile, export, files_to_export
from rheostat.config.resources import conf_file, shipped_path
from rheostat.config.settings import load_settings
from rheostat.errors import BadInputError, CommandError, SetupError


def exported(text: str, path: str = "a/b.yaml") -> list[ExportedFile]:
    return [ExportedFile(path=PurePosixPath(path), content=text.encode())]


def test_export_has_all_files_that_other_programs_read() -> None:
    files = {str(file.path): file for file in files_to_export(load_settings(conf_file("rheostat.yaml"), {}))}
    for folder in ("conf/collectors", "conf/grafana", "dashboards", "deploy"):
        shipped = {
            f"{folder}/{path.relative_to(shipped_path(*folder.split('/')))}"
            for path in shipped_path(*folder.split("/")).rglob("*")
            if path.is_file() and path.suffix not in (".py", ".pyc") and path.parent.name != "secrets"
        }
        assert shipped
        assert shipped <= files.keys()
    assert {"conf/prometheus/prometheus.yaml", "conf/alertmanager/alertmanager.yaml", ACLS_FILE} <= files.keys()
    assert not [
        path for path in files if path.endswith((".py", ".pyc")) or path.startswith(("conf/jvm", "conf/scenarios"))
    ]
    assert files[ACLS_FILE].is_executable


def test_incomplete_installation_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*parts: str) -> Path:
        raise FileNotFoundError

    monkeypatch.setattr("rheostat.config.export.shipped_path", missing)
    with pytest.raises(SetupError, match=r"lacks conf/rheostat\.yaml: install rheostat again"):
        files_to_export(load_settings(conf_file("rheostat.yaml"), {}))


def test_secrets_of_a_checkout_are_not_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "compose" / "secrets").mkdir(parents=True)
    (tmp_path / "compose" / "secrets" / "token").write_text("s3cret")
    (tmp_path / "compose" / "a.yaml").write_text("")

    def shipped(*parts: str) -> Path:
        return tmp_path if parts == ("deploy",) else shipped_path(*parts)

    monkeypatch.setattr("rheostat.config.export.shipped_path", shipped)
    files = files_to_export(load_settings(conf_file("rheostat.yaml"), {}))
    assert [str(file.path) for file in files if file.path.parts[0] == "deploy"] == ["deploy/compose/a.yaml"]


def test_rules_are_where_the_prometheus_file_looks_for_them(tmp_path: Path) -> None:
    export(files_to_export(load_settings(conf_file("rheostat.yaml"), {})), tmp_path)
    prometheus = tmp_path / "conf" / "prometheus"
    (pattern,) = yaml.safe_load((prometheus / "prometheus.yaml").read_text())["rule_files"]
    assert len(list(prometheus.glob(pattern))) == len(list(shipped_path("dashboards", "rules").glob("*.yaml")))


def test_compose_file_finds_its_files_in_the_export(tmp_path: Path) -> None:
    export(files_to_export(load_settings(conf_file("rheostat.yaml"), {})), tmp_path)
    compose = tmp_path / "compose.yaml"
    sources = set(re.findall(r"\./((?:conf|dashboards|deploy)/?[\w./-]*)", compose.read_text()))
    assert len(sources) > 5
    assert not [source for source in sources if not (tmp_path / source).exists()]
    assert (tmp_path / ".env").exists()


def test_second_export_changes_nothing(tmp_path: Path) -> None:
    assert export(exported("1"), tmp_path).written == ["a/b.yaml"]
    assert export(exported("1"), tmp_path).unchanged == ["a/b.yaml"]


def test_new_version_replaces_files_that_no_one_changed(tmp_path: Path) -> None:
    export(exported("1"), tmp_path)
    assert export(exported("2"), tmp_path).written == ["a/b.yaml"]
    assert (tmp_path / "a" / "b.yaml").read_text() == "2"


def test_changed_file_is_kept_and_reported_once(tmp_path: Path) -> None:
    export(exported("1"), tmp_path)
    file = tmp_path / "a" / "b.yaml"
    file.write_text("mine")
    assert export(exported("1"), tmp_path).edited == ["a/b.yaml"]
    assert export(exported("2"), tmp_path).kept == ["a/b.yaml"]
    assert export(exported("2"), tmp_path).edited == ["a/b.yaml"]
    assert file.read_text() == "mine"
    assert export(exported("2"), tmp_path, force=True).written == ["a/b.yaml"]
    assert file.read_text() == "2"


def test_file_of_another_origin_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.yaml").write_text("other")
    assert export(exported("1"), tmp_path).kept == ["a/b.yaml"]
    assert (tmp_path / "a" / "b.yaml").read_text() == "other"


def test_link_is_kept_also_if_its_target_is_as_exported(tmp_path: Path) -> None:
    export(exported("1"), tmp_path)
    file = tmp_path / "a" / "b.yaml"
    target = tmp_path / "target"
    file.rename(target)
    file.symlink_to(target)
    assert export(exported("2"), tmp_path).kept == ["a/b.yaml"]
    assert file.is_symlink()


def test_interrupted_export_recognises_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the new version are there, and the list was not brought up to date: the next version replaces them."""
    export(exported("1"), tmp_path)
    real = os.replace

    def interrupted(source: str, target: Path) -> None:
        real(source, target)
        if target.name == "b.yaml":
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        export(exported("2"), tmp_path)
    monkeypatch.undo()
    assert (tmp_path / "a" / "b.yaml").read_text() == "2"
    assert export(exported("3"), tmp_path).written == ["a/b.yaml"]


def test_full_disk_leaves_the_old_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export(exported("1"), tmp_path)
    real = os.replace

    def refused(source: str, target: Path) -> None:
        if target.name == "b.yaml":
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "replace", refused)
    with pytest.raises(CommandError, match=r"b\.yaml cannot be written \(No space left on device\)"):
        export(exported("2"), tmp_path)
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b.yaml"]
    assert (tmp_path / "a" / "b.yaml").read_text() == "1"


def test_file_of_earlier_version_is_named_and_left(tmp_path: Path) -> None:
    export(exported("1", "old.json"), tmp_path)
    assert export(exported("1"), tmp_path).outdated == ["old.json"]
    assert (tmp_path / "old.json").exists()


def test_two_kinds_of_exports_may_use_one_folder(tmp_path: Path) -> None:
    export(exported("old", "a.yaml"), tmp_path)
    assert export(exported("jar", "b.jar"), tmp_path, list_file=".other.json").outdated == []
    report = export(exported("new", "a.yaml"), tmp_path)
    assert (report.written, report.outdated) == (["a.yaml"], [])


def test_exported_files_are_readable_for_other_users(tmp_path: Path) -> None:
    tool = ExportedFile(path=PurePosixPath("tool.sh"), content=b"", is_executable=True)
    export([*exported("1"), tool], tmp_path)
    assert stat.S_IMODE((tmp_path / "a" / "b.yaml").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "tool.sh").stat().st_mode) == 0o755


def test_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    for folder in (file, file / "below"):
        with pytest.raises(BadInputError, match="is a file: name a folder"):
            export(exported("1"), folder)
    assert file.read_text() == "x"


def test_folder_that_cannot_be_written_is_refused() -> None:
    folder = Path("/proc/rheostat-export")  # Also root cannot create it.
    with pytest.raises(BadInputError, match="cannot be written") as refused:
        export(exported("1"), folder)
    assert "\n" not in str(refused.value)


def test_damaged_list_is_refused(tmp_path: Path) -> None:
    export(exported("1"), tmp_path)
    (tmp_path / LIST_FILE).write_text(json.dumps({"files": []}))
    with pytest.raises(BadInputError, match="is damaged: it should be the list of exported files"):
        export(exported("2"), tmp_path)
    assert (tmp_path / "a" / "b.yaml").read_text() == "1"


def test_command_says_what_it_wrote_and_what_it_kept(tmp_path: Path) -> None:
    folder = tmp_path / "export"
    first = CliRunner().invoke(app, ["config", "export", str(folder)])
    assert first.exit_code == 0
    assert "wrote dashboards/rheostat-overview.json\n" in first.output
    (folder / "conf" / "rheostat.yaml").write_text("mine")
    again = CliRunner().invoke(app, ["config", "export", str(folder)])
    assert again.exit_code == 0
    assert again.output.endswith("files unchanged, 1 files with your changes\n")
    (folder / LIST_FILE).unlink()
    conflict = CliRunner().invoke(app, ["config", "export", str(folder)])
    assert isinstance(conflict.exception, CommandError)
    assert str(conflict.exception).startswith(f"{folder / 'conf' / 'rheostat.yaml'} was changed and is kept")


def test_acl_commands_have_the_names_of_the_settings(tmp_path: Path) -> None:
    config = tmp_path / "r.yaml"
    config.write_text(conf_file("rheostat.yaml").read_text() + "\ntopics: {prefix: own}\n")
    done = CliRunner().invoke(app, ["config", "export", str(tmp_path / "export"), "--config", str(config)])
    assert done.exit_code == 0
    script = (tmp_path / "export" / ACLS_FILE).read_text()
    assert "--topic own.metrics" in script
    assert "rheostat.metrics" not in script
