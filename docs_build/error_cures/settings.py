"""Cures of errors in the settings file and in environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from docs_build.error_cures.phrases import TOKEN

_SECURE = "[Secure rheostat](../how-to/secure.md)"
_CHOOSE_ONE_SIDE = "both settings are paths of PEM files: give both, or neither"

CURES: Mapping[str, str] = MappingProxyType(
    {
        "is repeated; it is already in line": "YAML would use the last of the two values: remove one of the lines",
        "FILE:LINE: not YAML": "correct the line that the message names; most often an indentation or a missing quote is wrong",
        "expected keys and values, found": "begin the file with a section such as `kafka:`; `conf/rheostat.yaml` is an example",
        "sets a part of a value that another variable sets as a whole": (
            "unset one of the two environment variables: the shorter name sets the whole value, the longer one a part "
            "of it"
        ),
        "expected JSON, a mapping or a list": "write the value of the environment variable as JSON, for example `'{\"1\": 5}'`",
        "capacity is used with an objective only": (
            "remove `tuner.capacity`, or remove `tuner.objective: off`; without an objective rheostat only resolves "
            "stalls"
        ),
        "mode share needs capacity": (
            "set `tuner.capacity.in_bytes_per_s` and `out_bytes_per_s` to what the network of a broker carries; see "
            "[Set an objective](../how-to/set-an-objective.md)"
        ),
        "tolerance applies only with latency_ms: auto": "remove `tuner.objective.tolerance` or `tuner.objective.latency_ms`",
        "is not a cron expression": (
            "write the five fields minute, hour, day of month, month, day of week, such as `0 20 * * mon-fri`; preview the times "
            "with `rheostat config schedule`"
        ),
        "expected the five fields": "write five fields, such as `0 20 * * mon-fri`, without seconds",
        "describes a day that never comes": "correct the day or the month of the cron expression",
        "no time zone has the name": "write a name of the IANA database in `time_zone`, such as `Europe/Berlin` or `UTC`",
        "between two of its times": "lower `duration_s` of the rule, or let its cron expression come less often",
        "changes nothing: give": "set `rate_bytes_per_s_max`, `mode` or `tolerance` in the rule, or remove the rule",
        "schedule has several rules with the name": "give each rule of `tuner.schedule` a name of its own",
        "is below tuner.rate_bytes_per_s_min": ("raise the ceiling of the rule, or lower `tuner.rate_bytes_per_s_min`"),
        "mode and tolerance change the objective": (
            "remove `mode` and `tolerance` from the rule, or remove `tuner.objective: off`"
        ),
        "rate_bytes_per_s_min (": "lower `tuner.rate_bytes_per_s_min`, or raise `tuner.rate_bytes_per_s_max`",
        "so the metrics are not served: set read_token": (
            f"set `read_token` in the section that the message is about, or bind to 127.0.0.1. To get a token, {TOKEN}"
        ),
        "so the tuner does not start: set read_token": (
            f"set `tuner.http.read_token` and `tuner.http.operate_token`, or bind to 127.0.0.1. To get a token, {TOKEN}"
        ),
        "read_token and operate_token are the same": f"give the two settings different tokens; {TOKEN}",
        "KEY: read_token …": TOKEN,
        "in PEM form, but the Kafka client of Spark needs": (
            "convert the key with the `openssl` command in the message, and set the key of the message to the new file"
        ),
        "kafka.SETTING: PATH cannot be read": "set the key of the message to a PEM file that the user of rheostat can read",
        "SECTION.SETTING: PATH cannot be read": "set the key of the message to a file that the user of rheostat can read",
        "security_protocol SECURITY_PROTOCOL also needs": (
            f"set the keys that the message names under `kafka:`, or choose another `security_protocol`; see {_SECURE}"
        ),
        "ssl_certfile and ssl_keyfile go together": _CHOOSE_ONE_SIDE,
        "tls_certfile and tls_keyfile go together": _CHOOSE_ONE_SIDE,
        "tls_cert_file and tls_key_file go together": _CHOOSE_ONE_SIDE,
        "username and password_file go together": "give both settings, or neither",
        "mode deadline needs finish_at": (
            "set `tuner.objective.finish_at` to the time by which moves are to end, in UTC or with an offset"
        ),
        "recovery: act needs": "remove `tuner.objective: off`, or set `tuner.recovery: watch`",
        "unthrottled_moves: throttle needs": ("remove `tuner.objective: off`, or remove `tuner.unthrottled_moves`"),
        "expected host:port, or several": (
            "write `kafka.bootstrap_servers` as `broker1:9092,broker2:9092`, without a scheme such as `kafka://`"
        ),
        "collector.interval_s (": "lower `collector.interval_s`, or raise `stream.window_s` to at least twice the interval",
        "is more than 45: counters": (
            "configure the other collector to write at least every 45 s, and set `interval_s` of the source to its interval"
        ),
        "is not a multiple of slide_s": "set `stream.window_s` to a multiple of `stream.slide_s`, such as 10 s and 5 s",
        "is rheostat's own topic, which is always read": (
            "remove the entry from `stream.sources`: it is for the topics of other collectors"
        ),
        "master MASTER needs driver_host": (
            "set `stream.driver_host` to an address of this machine that the Spark workers can reach"
        ),
        "KEY: expected …, found …": "write the value of this key in the form that follows `expected`",
        "expected a time such as": "write the time in one of the forms that the message shows, for example `90s`",
        "expected a time above 0": "write a time above 0 in one of the forms that the message shows, for example `90s`",
        "expected a size such as": "write the size as a number of MiB, or with a unit: `1024MiB`, `2GiB`",
        "expected a share from 0%": "write the share as `25%` or `0.25`",
        "expected more than 0, found": "write a number above 0, or leave the key out to use its default",
        "backfill_after_s (BACKFILL": (
            "raise `stream.backfill_after_s` to at least the figure in parentheses, or leave it out to use its default"
        ),
        "exempt tenants have no managed quota": (
            "remove `exempt` from this entry of `tuner.mutation_quota.tenants`, or remove its `rate_per_s_min`"
        ),
        "expected at least one of …: otherwise no load would be too high": (
            "set at least one of the keys in the message under `tuner.mutation_quota.objective`"
        ),
        "expected user, client_id, or both: name the tenants": (
            "add `user`, `client_id` or both to this entry of `tuner.mutation_quota.tenants`"
        ),
        "ip: Kafka keeps no mutation quotas": "remove `ip` from this entry, and name the tenant by `user`, `client_id` or both",
        "finish_at is for mode deadline": "remove `tuner.objective.finish_at`, or set `tuner.objective.mode: deadline`",
        "share_max is for mode share": "remove `tuner.objective.share_max`, or set `tuner.objective.mode: share`",
        "mode share needs share_max": (
            "set `tuner.objective.share_max` to the part of the capacity that moves may use, for example `0.25`"
        ),
        "measure: true needs default_entity: none": (
            "remove `tuner.mutation_quota.measure`: with the `<default>` quota Kafka already measures every tenant"
        ),
        "slots_min (SLOTS_MIN) is above slots_max": (
            "lower `tuner.reassign.slots_min`, or raise `tuner.reassign.slots_max`"
        ),
        "sources[NUMBER].interval_s (INTERVAL_S) is more than half": (
            "raise `stream.window_s` to at least twice the interval of the other collector, or let that collector write "
            "more often and lower `interval_s` of the source"
        ),
        "is listed twice: its records would count twice": "remove one of the two entries of this topic from `stream.sources`",
        "contains a user or password: use username": (
            "write the URL without `USER:PASSWORD@`, and set `collector.username` and `collector.password_file`"
        ),
        "is not http(s)://host:port/path": (
            "write the URL of the node's metrics agent in full, for example `http://broker1:7071/metrics`"
        ),
        "username contains a colon": "use a user name without a colon for the agents, and set `collector.username` to it",
        "… is outdated: the settings in the code": (
            "run `make format` in the source tree, and commit the file; only developers of rheostat see this message"
        ),
    }
)
