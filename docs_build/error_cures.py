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
        "It needs the right Read on Topic": f"grant Read on this topic to the user of the command; {_RIGHTS}",
        "it needs the right Read on Topic": f"grant Read on these topics to the user of the command; {_RIGHTS}",
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
        "no rheostat.json, so what it was made with is not known": (
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
        "an earlier version of rheostat wrote it: record version": (
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
        "The query was stopped from outside.": "start the stream again, unless an operator or a supervisor stopped it on purpose",
        "collector.password_file PASSWORD: its first line": "write the password into the first line of the file",
        "collector.password_file PASSWORD: …": "check the path and the permissions of `collector.password_file`",
        "collector.tls_ca_file CA": "let `collector.tls_ca_file` name the PEM file of the CA that signed the agents' certificates",
        "collector.tls_cert_file CERT": (
            "give a certificate and its own key as PEM files, the key without a passphrase: `openssl pkey -in KEY -out NEW`"
        ),
        "CERTFILE and KEYFILE: …": "give a certificate and its own key as PEM files that the user of rheostat can read",
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
        # The demo and the lab.
        "this machine is too busy for the demo": "end other programs, and start the demo again",
    }
)

_CORRECT_SETTING = (
    "correct the key that the message names; `rheostat config check` says whether the file is right, and "
    "[Settings](configuration.md) lists every key"
)
# By the class of the exception. CommandError is for all that are not listed.
DEFAULT_CURES: Mapping[str, str] = MappingProxyType(
    {
        "AccessError": "correct the token or the file that the message names; see [API](api.md)",
        "AgentAccessError": "correct the file that the message names, so that the collector can read its agents",
        "BadInputError": "nothing was changed: correct the argument, the key or the line that the message names, "
        "and repeat the command",
        "ClusterError": "run `rheostat doctor`; it names what is wrong between rheostat and the brokers",
        "CommandError": "follow the advice in the message; if it gives none, run `rheostat doctor`",
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
        "typer.BadParameter": "nothing was changed: correct the option that the message names; `--help` shows the usage",
    }
)
