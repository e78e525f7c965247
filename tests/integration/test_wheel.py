"""The wheel as a user installs it: reproducible, whole, and beside distributions with packages of the same names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from rheostat.config.export import files_to_export
from rheostat.config.resources import conf_file
from rheostat.config.settings import load_settings

ROOT = Path(__file__).resolve().parents[2]
# A distribution like PyPI's mosaicml-streaming, with two of the names.
OTHER_PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "other-streaming"
version = "1"

[tool.hatch.build.targets.wheel]
packages = ["streaming", "tuner"]
"""
OTHER_NAMES = ("streaming", "tuner")
BUILD_S_MAX = 120
NOTHING_LISTENS = "127.0.0.1:9"

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a command without this test's variables of Python, in a folder that is no checkout."""
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV", "RHEOSTAT_"))
    }
    return subprocess.run(
        [*map(str, command)], cwd=cwd, env={**kept, **environment}, capture_output=True, text=True, timeout=BUILD_S_MAX, check=False,
    )  # fmt: skip


def build(source: Path, target: Path, **environment: str) -> dict[str, Path]:
    """Builds sdist and wheel; returns them by their suffix."""
    done = run(sys.executable, "-m", "hatchling", "build", "-d", target, cwd=source, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.suffix: path for path in target.iterdir()}


def copy_of_sources(target: Path) -> Path:
    """Copies what git has and has not been told to ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=60,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file() and not name.startswith((".venv", ".tools")):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    return target


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("built")
    return build(copy_of_sources(folder / "source"), folder / "dist")


@pytest.fixture(scope="module")
def other_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("other")
    (folder / "pyproject.toml").write_text(OTHER_PYPROJECT)
    for name in OTHER_NAMES:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(f"OWNER = 'other {name}'\n")
    return build(folder, folder / "dist")[".whl"]


def uv() -> str:
    """Returns the uv that `make` uses."""
    return shutil.which("uv") or str(ROOT / ".tools" / "uv" / "bin" / "uv")


class Environment:
    """A virtual environment that has the dependencies of this test's environment, but not its rheostat."""

    def __init__(self, home: Path) -> None:
        venv.create(home, with_pip=False, symlinks=True)
        self.home = home
        self.python = home / "bin" / "python"
        # A path in a .pth file adds the folder and ignores the .pth files in it, such as that of an editable installation.
        (self.packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")

    @property
    def packages(self) -> Path:
        (found,) = self.home.glob("lib/python*/site-packages")
        return found

    def install(self, *wheels: Path) -> None:
        for wheel in wheels:
            self._uv("install", "--no-deps", "--offline", str(wheel))

    def uninstall(self, name: str) -> None:
        self._uv("uninstall", name)

    def _uv(self, *arguments: str) -> None:
        done = run(uv(), "pip", arguments[0], "--python", self.python, *arguments[1:], cwd=self.home)
        assert done.returncode == 0, done.stderr

    def rheostat(self, *arguments: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return run(self.home / "bin" / "rheostat", *arguments, cwd=cwd, **environment)


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "venv")


def files_of_wheel(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_has_one_top_level_package(built: dict[str, Path]) -> None:
    assert {name.split("/")[0] for name in files_of_wheel(built[".whl"])} == {"rheostat", "rheostat-0.2.0.dist-info"}


def test_wheel_has_all_modules_and_shipped_files(built: dict[str, Path]) -> None:
    names = files_of_wheel(built[".whl"])
    for package, inside in (
        ("rheostat", "rheostat"), ("streaming", "rheostat/bundled/streaming"), ("tuner", "rheostat/bundled/tuner"),
        ("learning", "rheostat/bundled/learning"), ("conf", "rheostat/conf"),
    ):  # fmt: skip
        sources = {
            f"{inside}/{path.relative_to(ROOT / package)}"
            for path in (ROOT / package).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert sources <= names, sorted(sources - names)[:5]
    exported = {f"rheostat/{file.path}" for file in files_to_export(load_settings(conf_file("rheostat.yaml"), {}))}
    assert exported - names == {"rheostat/acls.sh"}
    assert not [name for name in names if name.startswith("rheostat/dashboards/") and name.endswith(".py")]


def test_sdist_makes_the_same_wheel(built: dict[str, Path], tmp_path: Path) -> None:
    with tarfile.open(built[".gz"]) as archive:
        archive.extractall(tmp_path, filter="data")
        assert {"requirements.lock", "Makefile", "CHANGELOG.md", "docs", "tests"} <= {
            name.split("/")[1] for name in archive.getnames() if "/" in name
        }
    again = build(tmp_path / "rheostat-0.2.0", tmp_path / "dist")
    assert again[".whl"].read_bytes() == built[".whl"].read_bytes()


def test_two_builds_give_the_same_bytes(built: dict[str, Path], tmp_path: Path) -> None:
    """In another folder, at another time, with other file times, modes, languages and hash seeds."""
    source = copy_of_sources(tmp_path / "elsewhere" / "source")
    for path in source.rglob("*"):
        if path.is_file():
            path.chmod(0o600 | (path.stat().st_mode & 0o100))
            os.utime(path, (time.time() - 10_000_000,) * 2)
    again = build(source, tmp_path / "dist", TZ="Asia/Tokyo", LC_ALL="C", PYTHONHASHSEED="7")
    for suffix in (".whl", ".gz"):
        assert again[suffix].read_bytes() == built[suffix].read_bytes(), suffix


@pytest.mark.parametrize("first", ["rheostat", "other"])
def test_other_packages_of_the_same_names_stay_intact(
    built: dict[str, Path], other_wheel: Path, environment: Environment, tmp_path: Path, first: str
) -> None:
    wheels = [built[".whl"], other_wheel]
    environment.install(*(wheels if first == "rheostat" else reversed(wheels)))
    (tmp_path / "elsewhere").mkdir()

    def other_owners() -> str:
        script = f"import {', '.join(OTHER_NAMES)}; print(*[m.OWNER for m in ({', '.join(OTHER_NAMES)})])"
        return run(environment.python, "-c", script, cwd=tmp_path / "elsewhere").stdout.strip()

    def works() -> None:
        for command in (("--version",), ("simulate", "broker-add", "--json")):
            done = environment.rheostat(*command, cwd=tmp_path / "elsewhere")
            assert done.returncode == 0, done.stderr

    works()
    assert other_owners() == "other streaming other tuner"
    if first == "rheostat":
        environment.uninstall("other-streaming")
        works()
    else:
        environment.uninstall("rheostat")
        assert other_owners() == "other streaming other tuner"


def test_installed_program_needs_no_checkout(built: dict[str, Path], environment: Environment, tmp_path: Path) -> None:
    environment.install(built[".whl"])
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    exported = environment.rheostat("config", "export", "files", cwd=folder)
    assert exported.returncode == 0, exported.stderr
    assert (folder / "files" / "dashboards" / "rheostat-overview.json").exists()
    settings = folder / "rheostat.yaml"
    shutil.copy(folder / "files" / "conf" / "rheostat.yaml", settings)
    checked = environment.rheostat("config", "check", "--config", settings, cwd=folder)
    assert (checked.returncode, checked.stdout) == (0, f"{settings}: no faults\n")
    # `python -m` and a child process find the packages too, and a folder of the same name in the current folder hides none.
    (folder / "streaming").mkdir()
    (folder / "streaming" / "__init__.py").write_text("raise SystemExit('the wrong package')\n")
    module = run(environment.python, "-m", "rheostat", "--version", cwd=folder)
    assert (module.returncode, module.stdout) == (0, "rheostat 0.2.0\n")
    doctor = environment.rheostat(
        "doctor", "--config", settings, cwd=folder,
        RHEOSTAT_KAFKA__BOOTSTRAP_SERVERS=NOTHING_LISTENS, RHEOSTAT_STREAM__CHECKPOINT_DIR=str(folder / "checkpoint"),
    )  # fmt: skip
    assert doctor.returncode == 3, doctor.stdout + doctor.stderr
    assert "reachability" in doctor.stdout
    assert "Traceback" not in doctor.stderr


@pytest.mark.campaign
@pytest.mark.timeout(1800)
def test_demo_runs_from_an_environment_with_locked_packages(built: dict[str, Path], tmp_path: Path) -> None:
    """Downloads every package of the lock file with its digest into an empty environment, as docs/how-to/install.md says."""
    home, folder = tmp_path / "venv", tmp_path / "elsewhere"
    folder.mkdir()
    venv.create(home, with_pip=True)
    for arguments in (
        ("--require-hashes", "--requirement", str(ROOT / "requirements.lock")),
        ("--no-deps", str(built[".whl"])),
    ):
        done = subprocess.run(
            [home / "bin" / "pip", "install", "--quiet", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV", "RHEOSTAT_"))
    }
    demo = subprocess.run(
        [home / "bin" / "rheostat", "demo"],
        cwd=folder,
        env=kept,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert demo.returncode == 0, demo.stdout[-3000:] + demo.stderr[-3000:]


def test_every_shipped_file_is_named_in_the_project_file() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    named = {*wheel["only-include"], *wheel.get("force-include", {})}
    assert {"conf", "dashboards", "deploy"} <= named
    for name in ("compose.yaml", ".env"):
        if (ROOT / name).exists():
            assert wheel["force-include"][name] == f"rheostat/{name}"
