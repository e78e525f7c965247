"""Writes the files for other programs into a folder: dashboards, rules, settings of collectors, units, charts, ACL commands.

The folder has the same paths as the repository, so references between the files stay valid.

Invariant: a file that was changed after its export is not overwritten, unless the caller asks for it. The folder therefore has a
list with the digest of each file as it was exported last. An export writes the list twice: before the files, with the old and
the new digest of each file, and after the files, with the new digest only. So an interrupted export recognises its own files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path, PurePosixPath

from rheostat.config.replaced_file import replace_file
from rheostat.config.resources import shipped_path
from rheostat.config.settings import Settings
from rheostat.errors import BadInputError, CommandError, SetupError
from rheostat.permissions.acls import acl_script, parse_principals

LIST_FILE = ".rheostat-export.json"
ACLS_FILE = "acls.sh"
# The shipped files for other programs. conf/ also has files that only rheostat itself reads.
_SHIPPED = (
    "conf/rheostat.yaml",
    "conf/alertmanager",
    "conf/collectors",
    "conf/grafana",
    "conf/prometheus",
    "dashboards",
    "deploy",
    "compose.yaml",
    ".env",
)
_OPTIONAL = ("compose.yaml", ".env")
_SUFFIXES_LEFT_OUT = (".py", ".pyc")
_FOLDERS_LEFT_OUT = {"secrets"}  # In a checkout, this folder may contain secrets of its owner.
_EXECUTABLE = 0o111


@dataclass(frozen=True, slots=True)
class ExportedFile:
    path: PurePosixPath  # Below the folder.
    content: bytes
    is_executable: bool = False

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


@dataclass(slots=True)
class ExportReport:
    """The result of an export, by path.

    Attributes:
        edited: files that an operator changed after their export, and whose shipped content is the same as at the last export.
            They stay as they are.
        kept: files that an operator changed after their export, and that this version ships with other content. They are not
            overwritten. The next export counts them as edited, so the new content is reported only once.
        outdated: files of an earlier export that this version does not have.
    """

    written: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    outdated: list[str] = field(default_factory=list)


def files_to_export(settings: Settings) -> list[ExportedFile]:
    """Returns all files of an export.

    Args:
        settings: the names and addresses for the ACL commands.

    Raises:
        SetupError: a file is missing from this installation.
    """
    files = [file for name in _SHIPPED for file in _shipped_files(name)]
    script = acl_script(settings, parse_principals(()))
    files.append(ExportedFile(path=PurePosixPath(ACLS_FILE), content=script.encode(), is_executable=True))
    return files


def _shipped_files(name: str) -> Iterator[ExportedFile]:
    try:
        source = shipped_path(*name.split("/"))
    except FileNotFoundError:
        if name in _OPTIONAL:
            return
        raise SetupError(
            f"This installation of rheostat lacks {name}: install rheostat again from its wheel."
        ) from None
    paths = sorted(path for path in source.rglob("*") if path.is_file()) if source.is_dir() else [source]
    for path in paths:
        if path.suffix not in _SUFFIXES_LEFT_OUT and _FOLDERS_LEFT_OUT.isdisjoint(path.relative_to(source).parts[:-1]):
            yield ExportedFile(
                path=PurePosixPath(name, *path.relative_to(source).parts),
                content=path.read_bytes(),
                is_executable=bool(path.stat().st_mode & _EXECUTABLE),
            )


def export(
    files: Sequence[ExportedFile], folder: Path, *, force: bool = False, list_file: str = LIST_FILE
) -> ExportReport:
    """Writes the files into the folder, each file as a whole or not at all.

    Args:
        force: also overwrite files that were changed after their export.
        list_file: name of the list. Each kind of export has its own list, so that two kinds may use one folder.

    Raises:
        BadInputError: the folder cannot be used; nothing was changed.
        CommandError: a file cannot be written.
    """
    earlier = _read_list(folder / list_file)
    report = ExportReport(outdated=_outdated(files, folder, earlier))
    to_write: list[ExportedFile] = []
    for file in files:
        name = str(file.path)
        current, known = _current_digest(folder / file.path), earlier.get(name, [])
        if current == file.digest:
            report.unchanged.append(name)
        elif current is None or force or current in known:
            to_write.append(file)
        elif file.digest in known:
            report.edited.append(name)
        else:
            report.kept.append(name)
    digests = earlier | {str(file.path): [*earlier.get(str(file.path), []), file.digest] for file in files}
    _write_list(folder / list_file, digests)
    for file in to_write:
        try:
            _write(folder / file.path, file.content, is_executable=file.is_executable)
        except OSError as error:
            raise CommandError(
                f"{folder / file.path} cannot be written ({error.strerror or error}); {len(report.written)} other files have been "
                "written. Correct the cause, and run the command again."
            ) from error
        report.written.append(str(file.path))
    _write_list(folder / list_file, {path: known[-1:] for path, known in digests.items()})
    return report


def _current_digest(path: Path) -> str | None:
    """Returns the digest of a file; None if there is none. A link or a folder gives a text that equals no digest."""
    if path.is_symlink():
        return "link"
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return "unreadable"


def _outdated(files: Sequence[ExportedFile], folder: Path, earlier: dict[str, list[str]]) -> list[str]:
    present = {str(file.path) for file in files}
    return sorted(path for path in earlier if path not in present and (folder / path).exists())


def _read_list(path: Path) -> dict[str, list[str]]:
    """Returns the digests of earlier exports by path.

    Raises:
        BadInputError: the folder is a file, cannot be read, or has a damaged list.
    """
    folder = path.parent
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): [str(digest) for digest in known] for name, known in body["files"].items()}
    except FileNotFoundError:
        return {}
    except NotADirectoryError as error:
        raise BadInputError(f"{folder} is a file: name a folder, which is created if it is missing.") from error
    except OSError as error:
        raise BadInputError(f"{folder} cannot be read ({error.strerror or error}): name another folder.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInputError(
            f"{path} is damaged: it should be the list of exported files. Remove it, and use --force if the exported files may be "
            "overwritten."
        ) from error


def _write_list(path: Path, digests: dict[str, list[str]]) -> None:
    body = {"version": version("rheostat"), "files": {path: digests[path] for path in sorted(digests)}}
    try:
        _write(path, (json.dumps(body, indent=1) + "\n").encode(), is_executable=False)
    except OSError as error:
        raise BadInputError(
            f"{path.parent} cannot be written ({error.strerror or error}): name a folder in which this user may create files."
        ) from error


def _write(path: Path, content: bytes, *, is_executable: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, content, is_executable=is_executable)
