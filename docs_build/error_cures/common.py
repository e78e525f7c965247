"""Cures of errors that several groups of commands share."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from docs_build.error_cures.phrases import DOCTOR, RIGHTS

CURES: Mapping[str, str] = MappingProxyType(
    {
        "PATH: cannot be read: …": (
            "check the path and its permissions: the user that runs rheostat must be able to read the file"
        ),
        "not UTF-8 text": "save the file as UTF-8: `iconv -f ISO-8859-1 -t UTF-8 OLD > NEW`",
        "the command needs the permission Read on Topic": (
            f"grant Read on each topic in the message to the user of the command; {RIGHTS}"
        ),
        "The cluster cannot be read: ERROR": DOCTOR,
        "The journal cannot be read: ERROR": f"check that the brokers of the journal's topic are alive; {DOCTOR}",
        "TOPIC cannot be read: …: ERROR": f"check that the brokers of the topic are alive; {DOCTOR}",
        "cannot be written: …": "name a file in a folder that exists and that the user of the command may write",
        "the folder FOLDER does not exist": "create the folder, or name another one",
        "no settings file is given": (
            "add `--config FILE`, or set the environment variable `RHEOSTAT_CONFIG` to the path of the file"
        ),
        "Nothing was done: OLD_NAME is now": (
            "use the new name at the end of the message; this version has renamed the option or command"
        ),
    }
)
