"""The printed kafka-acls commands: they grant the table of rights, with the names of the settings."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from docs_build.permissions import render_permissions
from rheostat.cli import app
from rheostat.config.settings import Settings, parse_settings
from rheostat.errors import BadInputError
from rheostat.permissions.acls import acl_script, parse_principals
from rheostat.permissions.table import ROLE_NAMES, ROLES
from streaming.shared.contract import Topics
from streaming.shared.lease import lease_group

SETTINGS = """\
cluster: west
kafka: {bootstrap_servers: 'kafka-1:9092,kafka-2:9092'}
topics: {prefix: own}
stream:
  checkpoint_dir: /x
  sources:
  - {topic: telegraf, format: telegraf_json}
  - {topic: far, format: otlp_json, kafka: {bootstrap_servers: 'far:9092'}}
tuner: {rate_bytes_per_s_max: 50MB/s, dry_run: false}
"""

Granted = set[tuple[str, str, str, str, bool]]


def settings_of(text: str = SETTINGS) -> Settings:
    return parse_settings(text, "f.yaml", {})


def granted(script: str) -> Granted:
    """Returns (principal, operation, option of the resource, name, whether it is a prefix) of each right."""
    rights: Granted = set()
    for line in script.splitlines():
        if not line.startswith("kafka-acls "):
            continue
        words = shlex.split(line)
        pairs = list(zip(words, [*words[1:], ""], strict=True))
        (principal,) = (value for word, value in pairs if word == "--allow-principal")
        is_prefix = "prefixed" in words
        resources = [(word, value) for word, value in pairs if word in ("--topic", "--group", "--transactional-id")]
        if "--cluster" in words:
            resources.append(("--cluster", ""))
        for operation in (value for word, value in pairs if word == "--operation"):
            rights |= {(principal, operation, kind, name, is_prefix) for kind, name in resources}
    return rights


def test_each_role_has_a_user_of_its_own_by_default() -> None:
    assert parse_principals(()) == {role: f"User:rheostat-{role}" for role in ROLE_NAMES}


def test_principal_without_role_is_for_all_other_roles() -> None:
    principals = parse_principals(["User:CN=rheostat,OU=ops", "collect=User:CN=collector"])
    assert principals["collect"] == "User:CN=collector"
    assert {principals[role] for role in ROLE_NAMES if role != "collect"} == {"User:CN=rheostat,OU=ops"}


@pytest.mark.parametrize(
    "values", [["alice"], ["tuner=User:alice"], ["collect="], ["User:a", "User:b"], ["collect=User:a"] * 2]
)
def test_wrong_principal_is_refused_with_one_sentence(values: list[str]) -> None:
    with pytest.raises(BadInputError, match=r"^--principal: .*") as refused:
        parse_principals(values)
    assert "\n" not in str(refused.value)


def test_commands_grant_exactly_the_table() -> None:
    options = {"Topic": "--topic", "Group": "--group", "TransactionalId": "--transactional-id", "Cluster": "--cluster"}
    expected: Granted = {
        (f"User:rheostat-{role.name}", operation, options[permission.kind],
         permission.name.replace("<prefix>", "own").replace("<cluster>", "west"), permission.is_prefix)
        for role in ROLES if "dry run" not in role.title
        for permission in role.permissions
        for operation in permission.operations
    }  # fmt: skip
    sources: Granted = {
        ("User:rheostat-stream", operation, "--topic", topic, False)
        for operation in ("Read", "Describe")
        for topic in ("telegraf", "far")
    }
    assert granted(acl_script(settings_of(), parse_principals(()))) == expected | sources


def test_one_user_for_all_roles_gets_every_right_once() -> None:
    script = acl_script(settings_of(), parse_principals(["User:one"]))
    apart = granted(acl_script(settings_of(), parse_principals(())))
    assert granted(script) == {("User:one", *right[1:]) for right in apart}
    commands = [line for line in script.splitlines() if line.startswith("kafka-acls")]
    assert len(commands) == len(set(commands))


def test_source_in_another_cluster_is_granted_there() -> None:
    lines = acl_script(settings_of(), parse_principals(())).splitlines()
    (far,) = (line for line in lines if line.endswith("--topic far"))
    assert "--bootstrap-server far:9092 " in far
    assert len([line for line in lines if "--bootstrap-server kafka-1:9092,kafka-2:9092 " in line]) > 20


def test_dry_run_gets_no_right_to_change_settings() -> None:
    dry = granted(acl_script(settings_of(SETTINGS.replace("dry_run: false", "dry_run: true")), parse_principals(())))
    tune = {right[1:3] for right in dry if right[0] == "User:rheostat-tune"}
    assert tune
    assert not {operation for operation, _ in tune} & {"Alter", "AlterConfigs"}
    assert not {kind for _, kind in tune} & {"--group", "--transactional-id"}


def test_tuner_without_plans_gets_no_alter_on_the_cluster() -> None:
    text = SETTINGS.replace("dry_run: false", "dry_run: false, reassign: {enabled: false}")
    without, with_plans = (granted(acl_script(settings_of(t), parse_principals(()))) for t in (text, SETTINGS))
    assert with_plans - without == {("User:rheostat-tune", "Alter", "--cluster", "", False)}


def test_commands_name_the_login_of_the_administrator() -> None:
    text = SETTINGS.replace("'kafka-1:9092,kafka-2:9092'", "'k:9093', security_protocol: SSL")
    script = acl_script(settings_of(text), parse_principals(()))
    assert "kafka-acls --bootstrap-server k:9093 --command-config admin.properties --add" in script
    assert "--command-config" not in acl_script(settings_of(), parse_principals(()))


def test_every_topic_has_a_writer_and_a_reader() -> None:
    rights = granted(acl_script(settings_of(), parse_principals(())))
    topics = Topics.with_prefix("own")
    for topic in (getattr(topics, name) for name in Topics.__slots__):
        assert {"Read", "Write"} <= {operation for _, operation, _, name, _ in rights if name == topic}, topic


def test_page_has_the_tables() -> None:
    page = render_permissions()
    assert (
        "| Read | Group `rheostat-tuner-<cluster>` | the lease (the right to act), which only one tuner has |" in page
    )
    assert "| Describe | Group prefix `rheostat-tuner-` |" in page
    assert lease_group("<cluster>") == "rheostat-tuner-<cluster>"


def test_doctor_prints_the_script(tmp_path: Path) -> None:
    config = tmp_path / "r.yaml"
    config.write_text(SETTINGS)
    command = ["doctor", "--config", str(config), "--print-acls"]
    done = CliRunner().invoke(app, [*command, "--principal", "User:one"])
    assert done.exit_code == 0
    assert done.output == acl_script(settings_of(), parse_principals(["User:one"]))
    for wrong in ([*command, "--json"], [*command, "--create"], [*command[:3], "--principal", "User:one"]):
        assert isinstance(CliRunner().invoke(app, wrong).exception, BadInputError)


def test_rights_of_a_cluster_and_of_the_metrics_cluster_are_apart() -> None:
    text = """\
cluster: obs
kafka: {bootstrap_servers: 'obs:9092'}
stream: {checkpoint_dir: /x}
tuner: {rate_bytes_per_s_max: 50MB/s, dry_run: false}
clusters: {west: {kafka: {bootstrap_servers: 'west:9092'}}}
"""
    script = acl_script(settings_of(text).for_cluster("west"), parse_principals(["User:r"]))
    lines = {server: [line for line in script.splitlines() if f" {server}:9092 " in line] for server in ("obs", "west")}
    at_obs, at_west = ({(kind, name) for _, _, kind, name, _ in granted("\n".join(lines[s]))} for s in ("obs", "west"))
    topics = Topics.with_prefix("rheostat")
    assert at_obs == {
        ("--topic", "rheostat."),
        *(("--topic", topic) for topic in topics.of_measurements),
        ("--group", lease_group("obs", "collect")),
        ("--group", lease_group("obs", "stream")),
    }
    assert at_west >= {("--topic", "rheostat."), ("--cluster", ""), ("--group", lease_group("west"))}
    assert {name for kind, name in at_west if kind == "--topic"} & set(topics.of_measurements) == set()
    assert {("--topic", topic) for topic in topics.of_tuner} <= at_west
