"""What the operator does about an error message, where the class of the error does not tell it well enough."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_SECURE = "[Secure rheostat](../how-to/secure.md)"
_REPAIR = "[Repair the journal](../how-to/repair-the-journal.md)"
_RIGHTS = "[Permissions](permissions.md) lists the rights of each process"
_DOCTOR = "run `rheostat doctor`: it names the listener, the broker or the right that is missing"
_STATUS_FIRST = "run `rheostat status` to see whether the order applies; repeat it only if it does not"
_TOKEN = "make one with `openssl rand -hex 24`; a token has at least 16 characters, and no spaces"
_ARTIFACTS = (
    "check the way to Maven Central: proxy, firewall, DNS. Without internet, put the artifacts into a mirror, and let "
    "`RHEOSTAT_IVY_SETTINGS` name an Ivy settings file with its address"
)
_REINSTALL = "install rheostat with its locked dependencies, as [Install](../how-to/install.md) says"
_CHOOSE_ONE_SIDE = "both settings are paths of PEM files: give both, or neither"

# By a distinctive part of the message as docs/reference/errors.md shows it. Without a full stop at the end.
CURES: Mapping[str, str] = MappingProxyType(
    {
        # Settings.
        "is repeated; it is already in line": "YAML would use the last of the two values: remove one of the lines",
        "PATH: cannot be read: …": (
            "check the path and its permissions: the user that runs rheostat must be able to read the file"
        ),
        "not UTF-8 text": "save the file as UTF-8: `iconv -f ISO-8859-1 -t UTF-8 OLD > NEW`",
        "WHERE: not YAML": "correct the line that the message names; most often an indentation or a missing quote is wrong",
        "expected keys and values, found": "begin the file with a section such as `kafka:`; `conf/rheostat.yaml` is an example",
        "sets a part of a value that another variable sets as a whole": (
            "unset one of the two environment variables: the shorter name sets the whole value, the longer one a part "
            "of it"
        ),
        "expected JSON, a mapping or a list": "write the value of the environment variable as JSON, for example `'{\"1\": 5}'`",
        "capacity is used with an objective only": (
            "set `tuner.objective.latency_ms`, or remove `tuner.capacity`; without an objective rheostat only resolves "
            "stalls"
        ),
        "objective needs capacity": (
            "set `tuner.capacity.in_bytes_per_s` and `out_bytes_per_s` to what the network of a broker carries; see "
            "[Set an objective](../how-to/set-an-objective.md)"
        ),
        "rate_bytes_per_s_min (": "lower `tuner.rate_bytes_per_s_min`, or raise `tuner.rate_bytes_per_s_max`",
        "so the metrics are not served: set read_token": (
            f"set `read_token` in the section that the message is about, or bind to 127.0.0.1. To get a token, {_TOKEN}"
        ),
        "so the tuner does not start: set read_token": (
            f"set `tuner.http.read_token` and `tuner.http.operate_token`, or bind to 127.0.0.1. To get a token, {_TOKEN}"
        ),
        "read_token and operate_token are the same": f"give the two settings different tokens; {_TOKEN}",
        "read_token FAULT": _TOKEN,
        "in PEM form, and Java's client wants": (
            "convert the key with the `openssl` command in the message, and let the setting name the new file"
        ),
        "kafka.SETTING: PATH cannot be read": "let the setting name an existing PEM file that the user of rheostat can read",
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
        "unthrottled_moves: throttle needs": (
            "set `tuner.objective.latency_ms` and `tuner.capacity`, or remove `tuner.unthrottled_moves`"
        ),
        "expected host:port, or several": (
            "write `kafka.bootstrap_servers` as `broker1:9092,broker2:9092`, without a scheme such as `kafka://`"
        ),
        "collector.interval_s (": "lower `collector.interval_s`, or raise `stream.window_s` to at least twice the interval",
        "is more than 45: counters": (
            "let the other collector write at least every 45 s, and set `interval_s` of the source to that"
        ),
        "is not a multiple of slide_s": "set `stream.window_s` to a multiple of `stream.slide_s`, such as 10 s and 5 s",
        "is rheostat's own topic, which is always read": (
            "remove the entry from `stream.sources`: it is for the topics of other collectors"
        ),
        "master MASTER needs driver_host": (
            "set `stream.driver_host` to an address of this machine that the Spark workers can reach"
        ),
        # Connection, TLS and login.
        "No broker answers at BOOTSTRAP_SERVERS": (
            "check `kafka.bootstrap_servers`, DNS and firewalls, and that the brokers run. `rheostat doctor` says how "
            "far the connection came with each server; the processes of `rheostat run` wait for the brokers with "
            "`--wait-for-cluster`"
        ),
        "A bootstrap server answers, but:": (
            "the bootstrap server sends the addresses in `advertised.listeners` of the brokers; this machine must be "
            "able to resolve and reach each of them. Correct the listeners or the network; `rheostat doctor` tests each"
            " address"
        ),
        "answers, but not with the Kafka protocol": (
            "the port belongs to another service, or to a listener with TLS: correct the port, or set "
            "`kafka.security_protocol` to `SSL` or `SASL_SSL`"
        ),
        "SERVER cannot be reached": "check the host name, the port, the firewall, and that the broker runs",
        "did not accept a connection within": (
            "a firewall probably drops the packets, or the broker is overloaded: test the port from this machine with "
            "`nc -vz HOST PORT`"
        ),
        "could not prove that it knows the password": (
            "the server is not the intended one, or stores another SCRAM password: check the address, and set the "
            "password of the user again"
        ),
        "does not support kafka.sasl_mechanism": "set `kafka.sasl_mechanism` to a mechanism that the message lists",
        "on the first request, which happens if a server requires another client certificate": (
            "the broker requires a client certificate (`ssl.client.auth=required`): set `kafka.ssl_certfile` and "
            "`kafka.ssl_keyfile` to one that its truststore accepts"
        ),
        "refused the login of kafka.sasl_username": (
            "check the user name and the password (`RHEOSTAT_KAFKA__SASL_PASSWORD`), and that the user exists for this "
            "mechanism on the brokers"
        ),
        "SERVER refused the login: …": (
            "check the credentials under `kafka:` and the mechanism; the log of the broker gives the exact reason"
        ),
        "supports no login on this port": (
            "set `kafka.security_protocol` to `PLAINTEXT` or `SSL`, or use the port of the SASL listener"
        ),
        "the certificate of SERVER is not accepted": (
            "set `kafka.ssl_cafile` to the CA that signed the certificate of the broker. If the host name does not "
            "match, use a name that is in the certificate"
        ),
        "the TLS handshake with SERVER failed": "use the port of the TLS listener, or a `kafka.security_protocol` without TLS",
        "the files in kafka.ssl_cafile": (
            "the files must be PEM; the key must belong to the certificate, and its passphrase to the key"
        ),
        "cannot WHAT at BOOTSTRAP_SERVERS": "check that the brokers are alive: `rheostat doctor` names the part that fails",
        "CALL: error ERROR_CODE": (
            "a broker answered with an error code of the Kafka protocol. Try again; if the error remains, look at the "
            "log of the broker"
        ),
        # Rights.
        "Create on Topic TOPIC": (
            "grant Create on the topic, or create it once with `rheostat doctor --create` as a user with this right; "
            f"{_RIGHTS}"
        ),
        "Describe on Cluster": f"grant Describe on the cluster to the user of this process; {_RIGHTS}",
        "Describe on Topic NAME": f"grant Describe on this topic to the user of this process; {_RIGHTS}",
        "TOPIC cannot be taken over: missing right": (
            f"grant the tuner's user Write on the journal, and Write and Describe on its transactional id; {_RIGHTS}"
        ),
        "The command needs the right Read on Topic": f"grant Read on this topic to the user of the command; {_RIGHTS}",
        "the command needs the right Read on Topic": f"grant Read on these topics to the user of the command; {_RIGHTS}",
        "The signals cannot be read: missing right": f"grant Read on the signals topic to the user of the command; {_RIGHTS}",
        # Tokens of the API.
        "holds no token: expected lines such as": f"write one line for each token: role, name, token. To get a token, {_TOKEN}",
        "expected a role, a name and a token": "write each line of the tokens file as `read NAME TOKEN` or `operate NAME TOKEN`",
        "the first word is the role": "begin the line with `read` or `operate`",
        "occurs twice: create another token": f"give each name a token of its own; {_TOKEN}",
        # Java, Spark, artifacts.
        "No Java on PATH": (
            "install a Java 17 or newer, or set `JAVA_HOME`. Check with `java -version` as the user that runs rheostat"
        ),
        "No Java at WHERE": "correct or unset `JAVA_HOME`; it names the folder that contains `bin/java`",
        "is too old, 17 or newer is needed": (
            "install a Java 17 or newer, and let `JAVA_HOME` name it if an older one stays installed"
        ),
        "Java at WHERE does not run": (
            "run `java -version` as the same user: the installation is incomplete, or made for another processor"
        ),
        "PySpark is not installed": _REINSTALL,
        "is not installed in this environment": _REINSTALL,
        "The JVM artifacts could not be fetched": _ARTIFACTS,
        "A fetched JVM artifact differs from the digest": (
            "the mirror or a proxy delivers another file. Compare the mirror with Maven Central; rheostat uses only "
            "files with the recorded digest"
        ),
        "remove HOME and try again": "the cached files are damaged: delete the folder that the message names, and start again",
        "kernel cannot be written to HOME": (
            "make the folder writable for the user of rheostat, or set `RHEOSTAT_CACHE_DIR` to a folder that is"
        ),
        "The stream's kernel cannot be compiled": (
            "install a JDK 17 or newer, not only a JRE, and let `JAVA_HOME` name it; if it still fails, report the "
            "compiler's message"
        ),
        # Ports.
        "The collector cannot listen on": (
            "find the process that uses the port with `ss -ltnp`, and stop it, or set another `collector.http.port`"
        ),
        "The stream cannot listen on": (
            "find the process that uses the port with `ss -ltnp`, and stop it, or set another `stream.http.port`"
        ),
        "The tuner cannot listen on": (
            "find the process that uses the port with `ss -ltnp`, and stop it, or set another `tuner.http.port`"
        ),
        # Stream.
        "Another version of rheostat wrote the checkpoint": (
            "start the version that wrote the checkpoint, or move the folder `stream.checkpoint_dir` away: the stream "
            "then begins with new records"
        ),
        "The checkpoint CHECKPOINT_DIR cannot be made": (
            "create the folder for the user of rheostat, or let `stream.checkpoint_dir` name another"
        ),
        "The checkpoint CHECKPOINT_DIR was made with something else": (
            "give each cluster and each set of sources a folder of its own, or move the folder away: the stream then "
            "begins with new records"
        ),
        "no rheostat.json, so the settings that it was made with are not known": (
            "let `stream.checkpoint_dir` name an empty folder, or move the files away"
        ),
        "Java process ran out of memory": (
            "raise `stream.driver_memory_mb` and restart the stream, if a record that causes this is not found after "
            "some restarts"
        ),
        "There is no folder for Spark's scratch space": (
            "free some space in the folder for temporary files, or set `TMPDIR` to another one"
        ),
        # Journal and tuner.
        "TOPIC cannot be written: another tuner has taken the journal over": (
            "nothing, if you run two tuners: this one becomes the standby. Otherwise `rheostat status` names the other "
            "tuner; stop one of the two"
        ),
        "and only a single one keeps the order of records": (
            "release rheostat's settings with `rheostat release`, stop it, delete the topic, and start it again; see "
            f"{_REPAIR}"
        ),
        "a transaction is open in it, or its leader does not answer": (
            "wait for `transaction.timeout.ms` of the producer (one minute by default), and check that the brokers of "
            "the topic are alive"
        ),
        "The topic TOPIC does not exist yet": "start `rheostat run`; if it runs, its log says why the topic is not created",
        "topic TOPIC does not exist": "create rheostat's topics with `rheostat doctor --create`, or start `rheostat run`",
        "an earlier version of rheostat wrote this record: record version": (
            "follow the [upgrade guide](../how-to/upgrade.md): release the settings with the earlier version, then "
            "start the new one"
        ),
        "The unreadable records have changed meanwhile": f"repeat the command; see {_REPAIR}",
        "Not all records were written": (
            f"run `rheostat journal check`, and repeat the repair for the records that it names; see {_REPAIR}"
        ),
        "The release is recorded, and it is unknown": (
            "run `rheostat status`: it shows the settings that are still to be restored, and whether a tuner acts"
        ),
        "No setting could be restored": "the message names the cause for each setting. Correct it, and repeat `rheostat release`",
        "it is unknown whether the order is recorded": _STATUS_FIRST,
        "It is not known whether the order was recorded": "run `rheostat reassign status` before you repeat the order",
        "It is not known whether the order applies": "run `rheostat reassign status` before you repeat the order",
        "the order is not recorded, because ERROR": (
            "nothing was changed. Correct the cause that the message names, and repeat the order"
        ),
        "The order was not recorded, because ERROR": (
            "nothing was changed. Correct the cause that the message names, and repeat the order"
        ),
        "another order is still being written": "wait some seconds, and repeat the order",
        "other orders are given at the same time": _STATUS_FIRST,
        "Not confirmed. Nothing was changed.": "repeat the command and answer with `y`, or give `--yes`",
        "there is no terminal to ask on": "in scripts and cron jobs, give `--yes`",
        # Plans.
        "names log_dirs: rheostat moves replicas between brokers": (
            "remove `log_dirs` from the plan, or move these partitions with `kafka-reassign-partitions`"
        ),
        "is above the ceiling of": (
            "give a lower rate, or raise `tuner.rate_bytes_per_s_max` and reload the tuner with SIGHUP first"
        ),
        "--standalone starts a tuner, and with these settings": (
            "set `tuner.dry_run: false`, or start the plan without `--standalone` while a tuner runs"
        ),
        "There is no plan PLAN_ID on record": "use an id that `rheostat reassign status` shows",
        "the current leaders and replicas of the partitions are not known": (
            "give `--config`, so that the command can read the cluster"
        ),
        "partition TOPIC-PARTITION lacks": (
            "a plan file has the format of `kafka-reassign-partitions`: `topic`, `partition` and `replicas` for each "
            "partition"
        ),
        "partitions are being reassigned, …-… among them": (
            "wait until `rheostat status` shows that nothing moves, and make the plan then"
        ),
        "No leader: …": (
            "start a broker that has an in-sync replica of the partition. `kafka-topics --describe "
            "--unavailable-partitions` lists such partitions"
        ),
        "POLICY_VIOLATION": (
            "the plan or topic would exceed a limit of the settings section `limits`: move or delete partitions, add "
            "brokers, or raise the limit"
        ),
        "INVALID_REPLICATION_FACTOR": (
            "give a replication factor of at most the number of brokers that are alive, or start more brokers"
        ),
        "every change of NUM_REPLICA_FETCHERS restarts all fetcher threads: nothing was changed. Try again": (
            "wait until nothing moves; `rheostat status` shows the expected end"
        ),
        # Cluster and processes.
        "The cluster cannot be read: ERROR": _DOCTOR,
        "The cluster cannot be read: PROGRESS": _DOCTOR,
        "The cluster's settings cannot be read": "grant DescribeConfigs on the cluster to the user of the command",
        "The journal cannot be read: ERROR": f"check that the brokers of the journal's topic are alive; {_DOCTOR}",
        "The journal cannot be read, as the cluster does not answer": _DOCTOR,
        "TOPIC cannot be read, as the cluster does not answer": _DOCTOR,
        "TOPIC cannot be read: NAME: ERROR": f"check that the brokers of the topic are alive; {_DOCTOR}",
        "TOPIC did not take the record: NAME: ERROR": (
            "check that at least `min.insync.replicas` replicas of the topic are in sync: `kafka-topics --describe --topic TOPIC`"
        ),
        "The signals cannot be read: ERROR": f"check that the brokers of the signals topic are alive; {_DOCTOR}",
        "It is unknown whether a tuner runs: ….": (
            "grant Read on the journal, and Describe on the group of the tuner, to the user of the command"
        ),
        "group GROUP cannot be described": f"grant Describe on the group to the user of this process; {_RIGHTS}",
        "The tuner cannot start: ERROR": (
            "the message names the cause. A setting: `rheostat config check`; the cluster: `rheostat doctor`"
        ),
        "The collector cannot start: ERROR": "the message names the file or the setting: correct it, and start the collector again",
        "The stream cannot start. TEXT": "the message names the cause, and the log above it has Spark's own message",
        "The stream's Spark query was stopped from outside": (
            "start the stream again, unless an operator or a supervisor stopped it on purpose"
        ),
        "collector.password_file PASSWORD: its first line": "write the password into the first line of the file",
        "collector.password_file PASSWORD: …": "check the path and the permissions of `collector.password_file`",
        "collector.tls_ca_file CA": "let `collector.tls_ca_file` name the PEM file of the CA that signed the agents' certificates",
        "collector.tls_cert_file CERT": (
            "give a certificate and its own key as PEM files, the key without a passphrase: `openssl pkey -in KEY -out NEW`"
        ),
        "FILE: cannot be read: …": "check the path and the permissions of the tokens file",
        "is also in the settings: create another token": f"use each token once; {_TOKEN}",
        "The stream's kernel was not compiled within": (
            "the machine is overloaded or very slow: end other programs, and start again"
        ),
        "missing, and topic TOPIC does not exist": "give `--replication`, or the name of an existing topic",
        "Nothing is moving: name a plan file": (
            "give the plan file, or start the move first: the command estimates a move in progress"
        ),
        "Topic NAME was just created by another client": (
            "use another name, or add partitions to that topic with `rheostat limits place`"
        ),
        "has not ended, and every change of NUM_REPLICA_FETCHERS": (
            "wait until the plan has ended, or pause it with `rheostat reassign pause`"
        ),
        "lead partitions, but the cluster does not list them as alive": (
            "wait a minute, and repeat the command; if it fails again, check the brokers that the message names"
        ),
        "no signal of the last … has the rate that clients write": (
            "start `rheostat run` and wait for the first signals, or give `--measure-for 10s`"
        ),
        "Other operators gave orders for plan ID": "run `rheostat reassign status`, and repeat the order if another one applies",
        # Single settings.
        "expected EXPECTED, found SHOWN": "write the value of this key, or of this option, in the form that follows `expected`",
        "OPTION: expected EXPECTED, found TEXT": "give the option a value in the form that follows `expected`",
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
        "expected at least one of …: without any, no load is too high": (
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
        "measure is for default_entity none": (
            "remove `tuner.mutation_quota.measure`: with the `<default>` quota Kafka already measures every tenant"
        ),
        "slots_min (SLOTS_MIN) is above slots_max": (
            "lower `tuner.reassign.slots_min`, or raise `tuner.reassign.slots_max`"
        ),
        "sources[I].interval_s (INTERVAL_S) is more than half": (
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
        # Files and options.
        "PATH: cannot be read: … expected a file, or one of": (
            "correct the path, or give the name of one of the scenarios that the message lists"
        ),
        "cannot be written: …": "name a file in a folder that exists and that the user of the command may write",
        "the folder PARENT does not exist": "create the folder, or name another one",
        "--plot: expected a file named": "let the name of the file end in `.svg` or `.txt`",
        "nothing is changed without --apply": "add `--apply`, or remove the options at the beginning of the message",
        "threads are compared by partitions, not by rates": "remove `--thread-rate`, or remove `--by partitions`",
        "no settings file is given": (
            "add `--config FILE`, or set the environment variable `RHEOSTAT_CONFIG` to the path of the file"
        ),
        "this option stands before the command": (
            "move the option behind the name of the command, as in `rheostat limits place --json …`"
        ),
        "give --json or --watch, not both": "remove `--json` or `--watch`",
        "give only one of --json, --watch and --raw": "keep one of the three options",
        "--wide: --json and --raw show": "remove `--wide`",
        "has an effect only with --watch": "add `--watch`, or remove `--duration`",
        "give --throttle or --unthrottled, not both": (
            "remove `--unthrottled` to move at the rate of `--throttle`, or remove `--throttle` to move without a throttle"
        ),
        "give --detach or --standalone, not both": (
            "if `rheostat run` or `rheostat tune` runs, give `--detach` alone. Otherwise give `--standalone` alone, and let the "
            "command run until the plan has ended"
        ),
        "--controllers: expected 1 or 3": "give `--controllers 1` or `--controllers 3`",
        "CHECK is outdated": (
            "run `make format` in the source tree, and commit the file; only developers of rheostat see this message"
        ),
        "Nothing was changed, because REFUSAL": (
            "use the version of rheostat that wrote the records; the [upgrade guide](../how-to/upgrade.md) says how to change "
            "to a newer one"
        ),
        "No plan can be made: ERROR": (
            "change the request by the reason after the colon: name other brokers, or add brokers. `rheostat limits` shows "
            "which brokers are full"
        ),
        "The tuner does not start: ERROR; see tuner.http": (
            "correct the file that the message names: `tuner.http.tokens_file`, `tls_certfile` or `tls_keyfile`"
        ),
        "has ended because its HTTP server ended": (
            "start the process again (`rheostat run` does so by itself), and report the error that its log has above the message"
        ),
        "the second word is a name": "shorten the name in this line of the tokens file to 64 letters, without control characters",
        "the token of CALLER_NAME FAULT": f"replace the token in this line of the tokens file: {_TOKEN}",
        "the certificate CERTFILE and the key KEYFILE cannot be used": (
            "let `tuner.http.tls_certfile` and `tls_keyfile` name a certificate and its own key, as PEM files that the user of "
            "rheostat can read, the key without a passphrase"
        ),
        "does not tell its version": "install a Java 17 or newer, or let `JAVA_HOME` name one; test it with `java -version`",
        "reinstall pyspark": _REINSTALL,
        "install rheostat anew": _REINSTALL,
        "install it anew": _REINSTALL,
        # Values of options.
        "--partitions: Kafka creates at most 10000": "create the topic with 10,000 partitions, and add the others afterwards",
        "and Kafka cannot remove partitions": "give `--partitions` the new total number, above the present one",
        "which its new partitions also get": "remove `--replication`: new partitions get the replication factor of their topic",
        "already exists, with … partitions": "give another name, or add partitions to the topic with `rheostat limits place`",
        "--topic: expected TOPIC_NAME_RULE": "give a topic name that Kafka accepts: letters, digits, `.`, `_` and `-`",
        "--preset: expected one of": "give one of the presets that the message lists",
        "--broker-limit: expected": "give the broker id and its limit, for example `--broker-limit 3=2000`",
        "--broker-limit: broker … is given twice": "keep one `--broker-limit` for this broker",
        "--topic-config: expected": "give the key and its value, for example `--topic-config retention.ms=86400000`",
        "--topic-config: … is given twice": "keep one `--topic-config` for this key",
        "give either --throttle, the throttle to set, or --clear": (
            "add `--throttle RATE` to set a throttle, or `--clear` to end the override"
        ),
        "--side: expected leader or follower": "give `--side leader` or `--side follower`, or remove it to set both sides",
        "--throttle: expected at least 1 B/s": (
            "give a rate of at least 1 B/s. To stop the move, cancel it with `kafka-reassign-partitions --cancel "
            "--preserve-throttles`, or a plan of rheostat with `rheostat reassign cancel`"
        ),
        "which is never exceeded: give a lower rate": (
            "give a lower rate, or raise `tuner.rate_bytes_per_s_max` and reload the tuner with SIGHUP first"
        ),
        "--broker BROKER is not alive": "give the id of a broker that the message lists, or start the broker first",
        "--current gives the current assignment": "add the path of the plan file to the command",
        "--size: the live cluster reports": "remove `--size`; it belongs to `--current`, which reads no cluster",
        "--share: the capacity is missing": "add `--capacity RATE`, the network rate of one broker",
        "--throttle and --capacity: both limit": "remove `--throttle` or `--capacity`",
        "--share: 0 % of capacity": "give `--share` a value above 0%",
        "or all four figures of KIP-73's formula": (
            "add `--config FILE` and a plan file, or add all the options at the end of the message"
        ),
        "Give exactly one of --add-broker": "keep one of the four options: one command plans one kind of move",
        "does not rebalance: leave --tolerance out": "remove `--tolerance`",
        "cannot be replaced and be a replacement at once": "name another replacement for this broker",
        "--add-broker: there is no other broker": (
            "name only the new brokers: at least one broker with data must remain beside them"
        ),
        "--drain-broker: no living broker": "drain fewer brokers, or start the brokers that are down",
        "broker … is given twice": "name each broker once",
        "--replace: expected OLD=NEW": "give the old and the new broker id, for example `--replace 2=5`",
        "--replace: broker OLD is given twice": "keep one `--replace` for this broker",
        "OPTION: broker BROKER PROBLEM": "give the option one of the brokers that the message lists",
        "--controller: expected one of": "give one of the controllers that the message lists",
        "--topics: expected at most 200000": "calculate with 200,000 topics, and multiply the time",
        "the lowest rate that Kafka accepts is 1 B/s": "give `--throttle` a rate of at least 1 B/s",
        "was cancelled with --no-rollback": (
            "wait until its steps in progress have ended; to move the replicas back, start another plan"
        ),
        "Plan ID is STATE and cannot be ACTION": (
            "wait until `rheostat reassign status` shows that the plan has ended, then start it again with `rheostat "
            "reassign start`"
        ),
        "has ended (VALUE) and takes no more orders": (
            "start the plan again with `rheostat reassign start`, if its moves are still needed"
        ),
        "Nothing was done: FORMER is now": (
            "use the new name at the end of the message; this version has renamed the option or command"
        ),
        "expected a time before --to": "give `--from` an earlier time, or `--to` a later one",
        "Nothing can be replayed between": (
            "choose a range inside the recorded time, which the end of the message names"
        ),
        "give --config, the settings file of the cluster, or --journal": (
            "add `--config FILE` to read the cluster's records, or `--journal FILE` to read a file that `--export` wrote"
        ),
        "The recorded inputs are damaged": (
            "choose a range without these records, and check who may write to the inputs topic: `rheostat doctor`"
        ),
        "AT: give a range with an objective": (
            "AT names the key `objective` of the file of `--tuner-settings`, which the recorded range cannot test. Choose a range "
            "in which the tuner had an objective, or use `rheostat simulate`"
        ),
        "AT: leave it out, or give a range": (
            "AT names the key `mutation_quota` of the file of `--tuner-settings`, which the recorded range cannot test. Remove the "
            "key, or choose a range in which rheostat set mutation quotas"
        ),
        "replay the file with the version that wrote it": (
            "another version of rheostat wrote this line of the file: install that version beside this one, and replay with it"
        ),
        "expected a line as `rheostat replay --export` writes it": (
            "give a file that `rheostat replay --export` wrote, without changes by an editor"
        ),
        "OPTION: expected a moment such as": "give the time as a date with an hour, as a distance such as `-2h`, or as `now`",
        "--policy POLICY: ERROR": "correct the policy file, or the name of the policy, as the text after the colon says",
        "the share is missing: give it": "add the share to the policy (`rheostat:share:25%`) or to the scenario",
        "the deadline is missing: give it": "add the deadline to the policy (`rheostat:deadline:2h`) or to the scenario",
        # Scenarios of the simulator.
        "KEY: expected a number of brokers": (
            "write `brokers` of the scenario as a number, or as a list with an entry for each broker"
        ),
        "expected 1 to 10000 brokers": "give the scenario between 1 and 10,000 brokers",
        "expected exactly one of add, drain, replace, plan": "keep one of the four keys under `move` of the scenario",
        "expected delay_max of at least delay": "raise `delay_max` of the scenario, or lower its `delay`",
        "expected an objective above base": "set the objective of the scenario between the two latencies in the message",
        "expected `until` to be later than `at`": "raise `until` of this event of the scenario, or lower its `at`",
        "expected brokers that hold nothing yet": "let `move.add` name brokers on which the scenario places no topics",
        "expected a broker without a replica of": "name another broker, which holds no replica of this partition yet",
        "expected a broker that can take": "add a broker to the scenario, or lower the replication factor of its topic",
        "the brokers of the journal do not answer": "nothing: the simulator makes the journal fail on purpose",
        # Records and brokers.
        "and the topic was not read to its end": (
            "check that the leader of the topic is alive (`kafka-topics --describe --topic TOPIC`), and repeat the command"
        ),
        "TOPIC cannot be taken over: NAME: ERROR": (
            "check that the brokers of the journal's topic are alive. The tuner tries again by itself"
        ),
        "TOPIC did not take the record: ERROR": (
            "nothing, if another tuner has taken over; otherwise `rheostat status` shows which tuners run"
        ),
        "Spark wrote FILE in its format": (
            f"another version of Spark wrote the checkpoint: {_REINSTALL}; or move the folder `stream.checkpoint_dir` away"
        ),
        "cannot describe the cluster at ADDRESS": (
            "check that the brokers at this address are alive and that `stream.sources` gives the right address and login"
        ),
        "Kafka's answer has no result for topic": "repeat the command; if it fails again, look at the log of the active controller",
        "missing right: Read on Topic TOPIC": f"grant Read on this topic to the user of the command; {_RIGHTS}",
        "missing right: … (Kafka refused to WHAT)": f"grant the right to the user of the command; {_RIGHTS}",
        # The demo and the lab.
        "A process of the demo ended by itself": (
            "correct the cause that the end of the message names (memory, a port, Java), and start the demo again"
        ),
        "Kafka's ProducerPerformance, which writes the load": (
            "Kafka's own message follows the colon. If the brokers of the lab have ended or the machine is too busy, start again "
            "with fewer other programs"
        ),
        "kafka-reassign-partitions … failed": "Kafka's own message follows the colon: correct its cause, and repeat the command",
        "Not all brokers of the lab started": (
            "read the last lines of the logs that the message names; most often memory is short or a port is in use"
        ),
        "Lab node NAME ended while starting": (
            "read the log that the message names; most often memory is short or a port is in use"
        ),
        "Lab NAME is STATE already": "stop that lab with `rheostat lab down --name NAME`, or give the new one another `--name`",
        "The lab did not start in time": (
            "end other programs, and start the lab again; the log that the message names has the cause"
        ),
        "this machine is too busy for the demo": "end other programs, and start the demo again",
    }
)

_CORRECT_SETTING = (
    "correct the value of the key after the line number; [Settings](configuration.md) lists every key, and "
    "`rheostat config check` checks the file"
)
# By the class of the exception. CommandError is for all that are not listed.
DEFAULT_CURES: Mapping[str, str] = MappingProxyType(
    {
        "AgentAccessError": "correct the file that the message names, so that the collector can read its agents",
        "BadInputError": "nothing was changed: correct the argument, the key or the line that the message names, "
        "and repeat the command",
        "ClusterError": "run `rheostat doctor`; it names what is wrong between rheostat and the brokers",
        "CommandError": "follow the advice in the message; if it gives none, run `rheostat doctor`",
        "CredentialsError": "correct the token or the file that the message names; see [API](api.md)",
        "JournalError": "run `rheostat journal check`; check that the brokers of the journal's topic are alive",
        "JournalLost": "nothing, if another tuner has taken over; otherwise look at the tuners with `rheostat status`",
        "JournalUnreadable": "do what the message says; `rheostat journal check` shows the records",
        "MissingPermission": "grant the right that the message names; [Permissions](permissions.md) lists the rights "
        "of each process",
        "NotAcknowledgedError": "start a tuner, or wait until one acts: the order is recorded",
        "NotConfirmedError": "repeat the command and confirm it, or give `--yes`",
        "OlderRecordError": "use the version of rheostat that wrote the record, or follow the "
        "[upgrade guide](../how-to/upgrade.md)",
        "PemError": "convert the file as the message says",
        "PortError": "stop what listens at that address, or set another `tuner.http.port`",
        "ProbeFailed": "compare `kafka.bootstrap_servers` and the security settings with the listener of the broker",
        "SetupError": "install or correct on this machine what the message names",
        "StreamError": "do what the message says; the log above it has the cause that Spark reports",
        "ThreadEndedError": "restart the process, and report the error in the log above the message",
        "Unreachable": "check that the brokers are alive and reachable from here: `rheostat doctor`",
        "UnreachableError": "check that the brokers are alive and reachable from here: `rheostat doctor`; the processes "
        "of `rheostat run` wait for them with `--wait-for-cluster`",
        "UnreadableBatchError": "see "
        "[Records that cannot be unpacked](../how-to/repair-the-journal.md#records-that-cannot-be-unpacked)",
        "ValueError": _CORRECT_SETTING,
        "typer.BadParameter": "correct the option at the beginning of the message; `--help` shows the usage. Nothing was changed",
    }
)
