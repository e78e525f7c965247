"""Control of Kafka's controller mutation quotas (KIP-599): pure decisions, no I/O.

A mutation quota limits how many partitions per second a tenant may create or delete. Read the modules in this order:

1. ``entity``, ``model``, ``state``, ``decision``: the values that everything else takes and returns.
2. ``operator_orders`` and ``policy``: one cycle from a view of the cluster to a list of decisions.
3. ``total_update``, ``total_rate``, ``apply_lag``, ``cost_model``, ``probe_window``, ``probe_margin``: the total rate.
4. ``tenant_rules``, ``tenant_status``, ``max_min_share``, ``allocation``, ``reasons``: the share of each tenant.
5. ``precedence``, ``default_quota``, ``exemptions``, ``metering_quota``: Kafka's order of precedence and ``<default>`` quotas.
6. ``ownership``, ``external_changes``, ``clock_skew``: quotas that other tools write, and clocks that jump.
"""
