"""Declares the command `rheostat doctor` and its options."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from rheostat.console.output import out, tell
from rheostat.errors import BadInputError
from rheostat.options import Config, Json


def doctor(
    config: Config,
    as_json: Json = False,
    fetch: Annotated[bool, typer.Option("--fetch", help="fetch the JVM artifacts now, if they are missing")] = False,
    create: Annotated[
        bool,
        typer.Option(
            "--create",
            help="create rheostat's missing topics, and also test the rights that only the creation of a topic can test",
        ),
    ] = False,
    print_acls: Annotated[
        bool,
        typer.Option(
            "--print-acls",
            help="check nothing; print a shell script of kafka-acls commands that grant each process its rights",
        ),
    ] = False,
    principals: Annotated[
        list[str] | None,
        typer.Option(
            "--principal",
            metavar="[ROLE=]USER",
            help="with --print-acls: the principal of one role, such as collect=User:alice, or of all other roles, such as "
            "User:bob; "
            "default: User:rheostat-ROLE",
        ),
    ] = None,
) -> None:
    """Checks Java, the JVM artifacts, the connections and the rights, and explains how to solve each problem.

    By default the command changes nothing.
    """
    from rheostat.config.settings import load_settings
    from rheostat.console.logs import set_up_logs
    from rheostat.console.rich_console import console_for
    from rheostat.doctor import examine as checks
    from rheostat.doctor.view import show
    from rheostat.jvm.kernel import stream_jars

    if print_acls:
        from rheostat.permissions.acls import acl_script, parse_principals

        if as_json or fetch or create:
            raise BadInputError(
                "--print-acls prints commands and checks nothing: leave out --json, --fetch and --create"
            )
        out(acl_script(load_settings(config), parse_principals(principals or ())).rstrip("\n"))
        return
    if principals:
        raise BadInputError("--principal is for --print-acls: give both, or neither")
    set_up_logs()
    settings = load_settings(config)
    if fetch:
        stream_jars(progress=tell)
    findings = []
    console = console_for(sys.stderr if as_json else sys.stdout)
    for finding in checks.examine(settings, create=create):
        findings.append(finding)
        show(finding, console)
    if as_json:
        out(json.dumps(checks.as_json(findings), indent=2))
    raise typer.Exit(checks.exit_code(findings))
