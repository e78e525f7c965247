"""Runs one command of the program in this process, and returns its output, its JSON record or its refusal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from rheostat.cli import app
from rheostat.errors import CommandError


class Command:
    def __init__(self, name: str, env: Mapping[str, str] | None = None) -> None:
        self._name = name
        self._env = env

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, [*self._name.split(), *arguments], env=self._env)

    def said(self, *arguments: str, code: int = 0) -> str:
        done = self.run(*arguments)
        assert done.exit_code == code, done.output
        return done.stdout

    def record(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.said(*arguments, "--json", code=code))
        return found

    def refused(self, *arguments: str) -> str:
        done = self.run(*arguments)
        if isinstance(done.exception, CommandError):
            assert done.exception.exit_code == 2
            return str(done.exception)
        assert done.exit_code == 2
        return done.output
