"""The story with ACLs: a user with exactly the documented rights rescues a stalled move, with tokens that expire after a minute.

The listener has TLS and SASL OAUTHBEARER. All of collect, stream and tune log in again several times while they run.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_parts import until
from permission_tables import ROLE_OF, acls
from story_kit import Running, make_topic, moving
from tls_kit import Papers, papers

from rheostat.config.settings import load_settings
from rheostat.doctor.examine import Finding, FindingVerdict, examine
from rheostat.lab.cluster import Lab
from rheostat.lab.load import ProducerLoad
from rheostat.lab.tools import reassign_partitions
from streaming.shared.kafka.cluster import ClusterClient

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from oauth_kit import CLIENT, SECRET, TokenServer
from oauth_lab import oauth_spec

LIFETIME_S = 60.0
# The leader's throttle carries each write twice: to the follower in sync, and to the new one.
THROTTLE, WRITES = 1_500_000, 1_000_000
# Also on a busy machine, where Spark needs minutes to start.
SETTLED_S_MAX = 900
# The tables of the parts of `rheostat run`.
PARTS = ("creator", "collector", "stream", "tuner", "learner")


@pytest.fixture
def signed(tmp_path: Path) -> Papers:
    return papers(tmp_path)


@pytest.fixture
def server(signed: Papers) -> Iterator[TokenServer]:
    with TokenServer(lifetime_s=LIFETIME_S).serving(signed.broker) as serving:
        yield serving


def grant_documented_rights(lab: Lab, prefix: str) -> None:
    every = [
        acl for part in PARTS for right in ROLE_OF[part].permissions for acl in acls(CLIENT, right, prefix)
    ]  # fmt: skip
    with lab.admin() as admin:
        admin.create_acls(every)


class OauthRunning(Running):
    """`rheostat run` that logs in with tokens of the server."""

    def __init__(self, lab: Lab, signed: Papers, server: TokenServer) -> None:
        super().__init__(lab)
        body: dict[str, Any] = json.loads(self.config.read_text())
        body["kafka"] = {
            "bootstrap_servers": lab.sasl_bootstrap_servers, "security_protocol": "SASL_SSL",
            "ssl_cafile": str(signed.authority), "request_timeout_s": 20, "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_endpoint": f"{server.url}/token", "sasl_oauth_client_id": CLIENT,
            "sasl_oauth_client_secret": SECRET, "sasl_oauth_cafile": str(signed.authority),
        }  # fmt: skip
        self.config.write_text(json.dumps(body))
        self.settings = load_settings(self.config, {})


@pytest.mark.campaign
@pytest.mark.timeout(3000)
def test_documented_rights_rescue_a_move_with_expiring_tokens(
    signed: Papers, server: TokenServer, tmp_path: Path
) -> None:
    with (
        Lab(oauth_spec(signed, server, tmp_path, brokers=3)) as lab,
        ClusterClient(lab.kafka_settings(), "test") as client,
    ):
        grant_documented_rights(lab, "rheostat")
        rheostat = OauthRunning(lab, signed, server)

        def failed() -> list[Finding]:
            return [f for f in examine(rheostat.settings, create=True) if f.verdict is FindingVerdict.FAILED]

        until(lambda: not failed(), 60, lambda: str(failed()))
        make_topic(lab, "orders", {p: [1, 2] for p in range(4)}, 120)

        def is_ready() -> bool:
            status = rheostat.status()
            return bool(status and status["ready"])

        try:
            with ProducerLoad(
                lab.artifacts, lab.bootstrap_servers, "orders", rate_bytes_per_s=WRITES, record_bytes=10_000
            ):
                began_s = time.monotonic()
                rheostat.until("signals are fresh", is_ready, SETTLED_S_MAX)
                target = {("orders", p): [1, 3] for p in range(4)}
                reassign_partitions(
                    lab.artifacts, lab.bootstrap_servers, target, "--execute", "--throttle", str(THROTTLE)
                )
                stalled = "stalled_below_steady_state"
                rheostat.until("the stall is found", lambda: rheostat.decided(stalled), SETTLED_S_MAX)
                rheostat.until("the move ends", lambda: not moving(client), SETTLED_S_MAX)
                issued = server.issued
                rheostat.until(
                    "each process has had three tokens",
                    lambda: time.monotonic() - began_s > 2.5 * LIFETIME_S and server.issued > issued + 4,
                    240,
                )
                rheostat.until("the tuner still has fresh signals", is_ready, 60)
                assert [child.restarts for child in rheostat.supervisor.children] == [0] * len(
                    rheostat.supervisor.children
                )
        finally:
            rheostat.supervisor.stop()
        said = rheostat.log.read_text(errors="replace")
        assert "Authentication" not in said, [line for line in said.splitlines() if "Authentication" in line][:5]
        assert "missing right" not in said
        assert "Traceback" not in said
