"""What an operator reads before a purge."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from rheostat.config.settings import parse_settings
from rheostat.orders.purge import PurgeScope, purge_summary

FILE = """\
cluster: main
kafka: {bootstrap_servers: 'main:9092'}
stream: {checkpoint_dir: /tmp/x}
tuner: {rate_bytes_per_s_max: 50MB/s}
clusters:
  main: {}
  east: {kafka: {bootstrap_servers: 'east:9092'}, tuner: {http: {port: 9474}}}
"""


@pytest.mark.parametrize(("cluster", "is_warned"), [("main", True), ("east", False)])
def test_purge_of_the_metrics_cluster_names_the_clusters_that_lose_their_history(cluster: str, is_warned: bool) -> None:
    settings = parse_settings(FILE, "f.yaml", {}).for_cluster(cluster)
    scope = PurgeScope(astuple(settings.topic_names()), (), ())
    warning = "main is the metrics cluster: the measurements and the history of east are deleted too."
    assert (warning in purge_summary(settings, scope)) is is_warned
