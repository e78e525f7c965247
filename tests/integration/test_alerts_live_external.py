"""A check that hangs, a receiver that answers 500, and cordons: Prometheus sees them, and Alertmanager notifies operators."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from lab_parts import until
from monitoring_kit import Monitoring
from prometheus_client import CollectorRegistry

from rheostat.lab.node import free_ports
from streaming.metrics_server import serve
from streaming.shared.cordons import BrokerCordon, CordonSource
from tuner.api.cordon_status_store import CordonCollector, CordonStatusStore
from tuner.api.external_status_store import ExternalCollector, ExternalStatusStore
from tuner.api.plan_status_store import PlanCollector, PlanStatusStore
from tuner.control.cordon.model import CordonMemory, CordonStep
from tuner.core.batch_limits import BatchLimits
from tuner.core.cordon_state import CordonState
from tuner.runtime.external.veto_watch import VetoWatch
from tuner.runtime.external.webhooks import QUEUE_MAX, Delivery, WebhookSender
from tuner.settings.external import VetoSettings, WebhookSettings

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from external_kit import ExternalService
from metrics_rig import CLUSTER, plan


@pytest.mark.campaign
def test_silent_check_and_receiver_fire_alerts(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret\n")
    store = ExternalStatusStore("c")
    with ExitStack() as cleanups:
        hangs = cleanups.enter_context(ExternalService(mode="hang").serving())
        check = VetoSettings(name="backup", url=hangs.url, timeout_s=0.5, interval_s=1, answer_valid_s=2)
        watch = VetoWatch([check], 1, time.monotonic, store.count_failure)
        store.reports = watch.reports
        watch.start()
        cleanups.callback(watch.stop)
        hook = WebhookSettings(name="chat", url=hangs.url, secret_file=str(secret))
        sender = WebhookSender(hook, store.count_delivery)
        store.queue_lengths = lambda: {"chat": len(sender)}
        cleanups.callback(sender.stop)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(ExternalCollector(store))
        server = serve(registry, "127.0.0.1", 0)
        cleanups.callback(server.close)
        ports = dict(zip(("rheostat-collector", "rheostat-stream"), free_ports(2), strict=True))
        monitoring = cleanups.enter_context(
            Monitoring(tmp_path / "monitoring", ports | {"rheostat-tuner": server.port})
        )
        ear = monitoring.ear
        told = until(lambda: ear.heard("VetoUnanswered", veto="backup"), 60, "a silent check is told")
        assert 'the check "backup" of cluster c has given no valid answer' in told.description
        # More events than the queue holds, after Prometheus has seen the counts before.
        for number in range(QUEUE_MAX + 5):
            sender.add(Delivery(str(number), b"{}"))
        told = until(lambda: ear.heard("WebhookDropping", webhook="chat"), 60, "dropped events are told")
        assert 'rheostat has dropped events for the receiver "chat"' in told.description


@pytest.mark.campaign
def test_cordoned_directories_and_targets_fire_alerts(tmp_path: Path) -> None:
    cordons, plans = CordonStatusStore(), PlanStatusStore(CLUSTER)
    cordoned = BrokerCordon(("/a", "/b"), ("/a", "/b"), CordonSource.BROKER)
    cordons.publish(CordonStep((), CordonMemory(), CordonState(), {3: cordoned}))
    plans.record_step((replace(plan("p-1"), cordoned_targets=frozenset({3})),), BatchLimits())
    registry = CollectorRegistry(auto_describe=False)
    registry.register(CordonCollector(cordons, CLUSTER))
    registry.register(PlanCollector(plans))
    with ExitStack() as cleanups:
        server = serve(registry, "127.0.0.1", 0)
        cleanups.callback(server.close)
        ports = dict(zip(("rheostat-collector", "rheostat-stream"), free_ports(2), strict=True))
        monitoring = cleanups.enter_context(
            Monitoring(tmp_path / "monitoring", ports | {"rheostat-tuner": server.port})
        )
        ear = monitoring.ear
        notice = until(lambda: ear.heard("LogDirsCordoned", broker="3"), 60, "cordoned directories are reported")
        assert "2 log directories of broker 3" in notice.description
        notice = until(lambda: ear.heard("PlanTargetCordoned", plan="p-1"), 60, "a cordoned target is reported")
        assert "has had 1 cordoned target brokers" in notice.description
        plans.record_step((plan("p-1"),), BatchLimits())
        cordons.clear()
        # The receiver of notices is not told that they end.
        until(lambda: ear.heard("PlanTargetCordoned", "resolved"), 60, "the alert ends")
