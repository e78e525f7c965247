"""Runs the tuner as a process, and provides the functions that all long-running processes use at their start.

The other processes are in collect_service.py, stream_service.py and learn_service.py.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Collection
from contextlib import ExitStack
from types import FrameType

import structlog
from prometheus_client import CollectorRegistry

from rheostat.config.change_watch import ConfigWatch
from rheostat.config.settings import Settings
from rheostat.connectivity.advice import failure_text, is_connected, remedies
from rheostat.connectivity.probe import probe_servers
from rheostat.errors import BadInputError, CommandError, SetupError, UnreachableError
from rheostat.run.address_file import write_address
from rheostat.run.service_manager import ServiceManager
from rheostat.run.sighup import SettingsReloads
from rheostat.run.work_reporter import WorkReporter
from streaming.metrics_server import serve
from streaming.shared.heartbeat import Heartbeat
from streaming.shared.kafka.cluster import ClusterClient, ClusterError
from streaming.shared.kafka.settings import PemError
from streaming.shared.metrics_settings import MetricsHttpSettings
