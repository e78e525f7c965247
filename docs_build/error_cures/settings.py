"""Cures of errors in the settings file and in environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from docs_build.error_cures.phrases import REINSTALL, TOKEN

_SECURE = "[Secure rheostat](../how-to/secure.md)"
_LOGIN = "[Log in with OAuth, MSK IAM or Kerberos](../how-to/log-in-with-oauth.md)"
_BOTH_FILES = "set both settings, each to the path of a PEM file, or remove both"
_OTHER_FOLDER = "give the command another folder, or correct the permissions of this one. Nothing was written"
_URL_HTTPS = "Otherwise other machines on the network could read it"

CURES: Mapping[str, str] = MappingProxyType(
    {
        "KEY: unknown key": (
            "correct the key; the message names the most similar one. [Settings](configuration.md) lists every key, and "
            "[Upgrade](../how-to/upgrade.md) the keys that an earlier version named differently"
        ),
        "KEY: …, found …": "write a value of the kind that the message names",
        "KEY: is missing": "add this key to the section in the message; the message says what the value means",
        "KEY: expected at least one, found none": "add at least one item to this list",
        "is repeated; it is already in line": ("remove one of the two lines. YAML would silently use the second value"),
        "FILE:LINE: not YAML": "correct the line in the message; the usual causes are a wrong indentation and a missing quote",
        "the alias refers to a value that contains the alias": (
            "replace the alias (`*NAME`) in this line by a value, or move the anchor (`&NAME`) to another value"
        ),
        "expected keys and values, found": (
            "begin the file with a section such as `kafka:`; `conf/rheostat.yaml` in the source tree is an example"
        ),
        "sets a part of a value that another variable sets as a whole": (
            "unset one of two environment variables. The variable in the message sets a part of a value, such as "
            "`RHEOSTAT_TUNER__OBJECTIVE__MODE`. Another variable with a shorter name, such as `RHEOSTAT_TUNER__OBJECTIVE`, "
            "sets the whole value"
        ),
        "expected JSON, a mapping or a list": "write the value of the environment variable as JSON, for example `'{\"1\": 5}'`",
        "SOURCE: the file has no cluster of this name": (
            "correct the name of the cluster in the environment variable or the credential that the message begins with, or add "
            "the cluster to `clusters` in the settings file"
        ),
        "FILE has no cluster of this name": (
            "give `--cluster` one of the names in the message. The environment variable `RHEOSTAT_CHOSEN_CLUSTER` has the same "
            "effect as the option"
        ),
        "FILE has several clusters": (
            "give `--cluster` one of the names in the message: the settings file describes several clusters, and the command acts "
            "on one"
        ),
        "credential NAME: FILE cannot be read": (
            "let the user of rheostat read this file. systemd creates the file for a line `LoadCredential=` of the unit"
        ),
        "credential NAME: FILE is empty": (
            "write the value of the setting into the file that `LoadCredential=` in the systemd unit names"
        ),
        "CREDENTIALS_DIRECTORY: FOLDER cannot be read": (
            "let the user of rheostat read this folder, or unset `CREDENTIALS_DIRECTORY` if you use no systemd credentials"
        ),
        "capacity has an effect only with an objective": (
            "remove `tuner.capacity`, or remove `tuner.objective: off`. Without an objective the tuner only raises throttles of "
            "stalled moves, and needs no capacity"
        ),
        "mode: share needs tuner.capacity": (
            "set `tuner.capacity.in_bytes_per_s` and `out_bytes_per_s` to the network rate of a broker; see "
            "[Set an objective](../how-to/set-an-objective.md)"
        ),
        "tolerance applies only with latency_ms: auto": (
            "remove `tuner.objective.tolerance` to keep the fixed latency, or remove `tuner.objective.latency_ms`"
        ),
        "is not a cron expression": (
            "write the five fields minute, hour, day of month, month, day of week, such as `0 20 * * mon-fri`; "
            "`rheostat config schedule` shows the resulting times"
        ),
        "expected the five fields": "write five fields, such as `0 20 * * mon-fri`; rheostat accepts no field for seconds",
        "describes a day that never comes": (
            "correct the day or the month of the cron expression: it names a date such as 30 February"
        ),
        "no time zone has the name": "set `time_zone` to a name of the IANA database, such as `Europe/Berlin` or `UTC`",
        "between two starts of the rule": (
            "lower `duration_s` of the rule, or change its cron expression so that the rule begins less often"
        ),
        "changes nothing: give": "set `rate_bytes_per_s_max`, `mode` or `tolerance` in the rule, or remove the rule",
        "schedule has several rules with the name": "give each rule of `tuner.schedule` a name of its own",
        "SECTION has several entries with the name": "change the `name` of all but one of these entries",
        "is below tuner.rate_bytes_per_s_min": (
            "raise `rate_bytes_per_s_max` of the rule, or lower `tuner.rate_bytes_per_s_min`"
        ),
        "schedule, rule NAME: REASON": (
            "correct `mode` or `tolerance` of the rule. While the rule applies, they replace the values in `tuner.objective`, and "
            "the result would be invalid for the reason in the message"
        ),
        "mode and tolerance change the objective": (
            "remove `mode` and `tolerance` from the rule, or remove `tuner.objective: off`"
        ),
        "rate_bytes_per_s_min (": "lower `tuner.rate_bytes_per_s_min`, or raise `tuner.rate_bytes_per_s_max`",
        "so the metrics are not served: set read_token": (
            f"set `read_token` in the section that the message names, or set `host: 127.0.0.1` there. To get a token, {TOKEN}"
        ),
        "so the tuner does not start: set read_token": (
            f"set `tuner.http.read_token` and `tuner.http.operate_token`, or set `tuner.http.host: 127.0.0.1`. To get a token, "
            f"{TOKEN}"
        ),
        "read_token and operate_token are the same": f"give the two settings different tokens. To get a token, {TOKEN}",
        "KEY: read_token …": f"replace the token. To get a token, {TOKEN}",
        "in PEM form, but the Kafka client of Spark needs": (
            "convert the private key with the `openssl` command in the message, and let the setting in the message name the "
            "new file"
        ),
        "kafka.SETTING: PATH cannot be read": "let the setting in the message name a PEM file that the user of rheostat can read",
        "SECTION.SETTING: PATH cannot be read": "let the setting in the message name a file that the user of rheostat can read",
        "security_protocol SECURITY_PROTOCOL also needs": (
            f"set `kafka.sasl_mechanism`, or choose a `security_protocol` without SASL; see {_SECURE}"
        ),
        "sasl_mechanism SASL_MECHANISM also needs NAME": (
            f"set the missing key in the section `kafka`, or choose another `sasl_mechanism`; see {_LOGIN}"
        ),
        "sasl_mechanism SASL_MECHANISM needs exactly one of": (
            "set one of the keys in the message, and remove the others: they are different sources of the same password or token"
        ),
        "sasl_kerberos_principal and sasl_kerberos_keytab": (
            "set both settings to log in with a keytab, or remove both to use the ticket cache of the user"
        ),
        "sasl_oauth_token_endpoint must be a URL": (
            f"use the `https://` address of the token endpoint: the request contains the client's secret. {_URL_HTTPS}"
        ),
        "but the Kerberos library has one ticket cache": (
            "give all connections of the settings file the same `sasl_kerberos_keytab` and `sasl_kerberos_principal`"
        ),
        "Spark's executors on other machines cannot use the tokens": (
            "let another program write the token into a file under the same path on each machine of the Spark cluster, and set "
            f"`sasl_oauth_token_file` to this path; see {_LOGIN}"
        ),
        "ssl_certfile and ssl_keyfile": _BOTH_FILES,
        "tls_certfile and tls_keyfile": _BOTH_FILES,
        "tls_cert_file and tls_key_file": _BOTH_FILES,
        "KEY: username and password_file": "set both keys, or remove both if the agents ask for no login",
        "cruise_control: user and password_file": "set both keys, or remove both if Cruise Control asks for no login",
        "cruise_control: a password needs a url": (
            "set `tuner.cruise_control.url` to an `https://` address: each request contains the password. " + _URL_HTTPS
        ),
        "movements_per_broker_min is above": (
            "lower `tuner.cruise_control.movements_per_broker_min`, or raise `movements_per_broker_max`"
        ),
        "jwks_url must be a URL": (
            "set `tuner.http.oidc.jwks_url` to an `https://` address: with http, an attacker on the network could replace the keys "
            "that check the tokens"
        ),
        "oidc needs either jwks_url or jwks_file": "set one of `tuner.http.oidc.jwks_url` and `jwks_file`, and remove the other",
        "read_values and operate_values are both empty": (
            "list at least one role or group in `tuner.http.oidc.read_values` or `operate_values`"
        ),
        "expected a URL such as https://host:8080/path": (
            "write the whole address, beginning with `http://` or `https://`, without spaces and without letters outside ASCII"
        ),
        "the URL ends with a fragment": "remove the part from `#` on",
        "the URL contains a login": (
            "remove `USER:PASSWORD@` from the URL. For a login, set `token_file` of the veto, or `user` and `password_file` of "
            "Cruise "
            "Control"
        ),
        "needs either url or prometheus": (
            "set `url` for a service that answers with JSON, or `prometheus` with `query` for a PromQL query, but not both"
        ),
        "a token needs an address that begins with": (
            "use the `https://` address of the service: each request contains the token. " + _URL_HTTPS
        ),
        "or each answer expires before the next": "raise `answer_valid_s` of the veto, or lower its `interval_s`",
        "set only one of the limits above and below": (
            "remove one of the two limits; for a range of allowed values, write two entries of `tuner.vetoes`"
        ),
        "lower_to_bytes_per_s applies only with effect: lower": (
            "set `effect: lower` if the veto is to lower throttles, or remove `lower_to_bytes_per_s`"
        ),
        "prometheus and query": "set both keys, or remove both and set `url`",
        "prometheus is the address of the server": (
            "write only the server, such as `http://prometheus:9090`, and put the PromQL expression into `query`"
        ),
        "needs either secret_file or secret_variable": (
            "set one of the two: the tuner signs each event with this secret, so that the receiver can verify the sender"
        ),
        "mode: deadline needs finish_at": (
            "set `tuner.objective.finish_at` to the time by which moves have to end, in UTC or with an offset"
        ),
        "recovery: act needs": "remove `tuner.objective: off`, or set `tuner.recovery: watch`",
        "unthrottled_moves: throttle needs": ("remove `tuner.objective: off`, or remove `tuner.unthrottled_moves`"),
        "expected host:port, or several": (
            "write `kafka.bootstrap_servers` as `broker1:9092,broker2:9092`, without a scheme such as `kafka://`"
        ),
        "collector.interval_s (": "lower `collector.interval_s`, or raise `stream.window_s` to at least twice the interval",
        "is more than 45: the stream treats": (
            "configure the other collector to write at least every 45 s, and set `interval_s` of the source to this interval"
        ),
        "is not a multiple of slide_s": "set `stream.window_s` to a multiple of `stream.slide_s`, such as 10 s and 5 s",
        "is rheostat's own topic, which is always read": (
            "remove the entry from `stream.sources`, which is for the topics of other collectors"
        ),
        "master MASTER needs driver_host": (
            "set `stream.driver_host` to an address of this machine that the Spark workers can reach"
        ),
        "expected local, local[4], spark://host:port": "correct `stream.master`: only these kinds of Spark masters are supported",
        "write master: local and cores:": (
            "give the number of threads once, as `stream.cores` or in brackets as in `local[4]`"
        ),
        "the image of Spark for the executors": (
            "add `spark.kubernetes.container.image` to `stream.spark_conf`: Kubernetes starts the executors from this image"
        ),
        "KEY: expected …, found …": "write the value of this key in the form after the word `expected`",
        "expected a time such as": "write the time in one of the forms in the message",
        "expected a time above 0": "write a time above 0 in one of the forms in the message",
        "expected a size such as": "write the size as a number of MiB, or with a unit: `1024MiB`, `2GiB`",
        "expected a share from 0%": "write the share as `25%` or `0.25`",
        "expected more than 0, found": "write a number above 0, or remove the key to use its default",
        "backfill_after_s (BACKFILL": (
            "raise `stream.backfill_after_s` to at least the number in the second parentheses, or remove the key to use its default"
        ),
        "rate_per_s_min has no effect on an exempt tenant": (
            "remove `exempt` or `rate_per_s_min` from this entry of `tuner.mutation_quota.tenants`"
        ),
        "without a limit the tuner would regard no load as too high": (
            "set at least one of the keys in the message under `tuner.mutation_quota.objective`"
        ),
        "expected user, client_id, or both: name the tenants": (
            "add `user`, `client_id` or both to this entry of `tuner.mutation_quota.tenants`"
        ),
        "ip: Kafka keeps no mutation quotas": "remove `ip` from this entry, and name the tenant by `user`, `client_id` or both",
        "finish_at applies only with mode: deadline": "remove `tuner.objective.finish_at`, or set `tuner.objective.mode: deadline`",
        "share_max applies only with mode: share": "remove `tuner.objective.share_max`, or set `tuner.objective.mode: share`",
        "mode: share needs share_max": (
            "set `tuner.objective.share_max` to the part of the capacity that moves may use, for example `0.25`"
        ),
        "measure: true needs default_entity: none": (
            "remove `tuner.mutation_quota.measure`: Kafka measures each tenant that has a quota, and the `<default>` quota applies "
            "to all tenants without a quota of their own"
        ),
        "slots_min (SLOTS_MIN) is above slots_max": (
            "lower `tuner.reassign.slots_min`, or raise `tuner.reassign.slots_max`"
        ),
        "sources[NUMBER].interval_s (INTERVAL_S) is more than half": (
            "raise `stream.window_s` to at least twice the interval of the other collector. Or let that collector write more "
            "often, "
            "and lower `interval_s` of the source"
        ),
        "is listed twice: its records would count twice": "remove one of the two entries of this topic from `stream.sources`",
        "contains a user or password: use username": (
            "write the URL without `USER:PASSWORD@`, and set `collector.username` and `collector.password_file`"
        ),
        "is not http(s)://host:port/path": (
            "write the whole URL of the node's metrics agent, for example `http://broker1:7071/metrics`"
        ),
        "username contains a colon": (
            "let the agents accept a user name without a colon, and set `collector.username` to this name"
        ),
        "… is outdated: the settings in the code": (
            "run `make format` in the source tree, and commit the file. Only developers of rheostat see this message"
        ),
        "FOLDER cannot be read (…): name another folder": _OTHER_FOLDER,
        "FOLDER cannot be written (…): name a folder": _OTHER_FOLDER,
        "FOLDER is a file": "give the command the path of a folder, which may be new. Nothing was written",
        "is damaged: it should be the list of exported files": (
            "remove the damaged file in the message, and repeat the command. Without this list rheostat does not overwrite an "
            "existing file with other content than the file to export; with `--force` it overwrites such files"
        ),
        "This installation of rheostat lacks NAME": REINSTALL,
        "other files have been written. Correct the cause": (
            "correct the cause in the first parentheses, such as a full disk or a missing permission, and repeat the command. "
            "Files before this one have been written"
        ),
    }
)
