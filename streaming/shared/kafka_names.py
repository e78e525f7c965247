"""Kafka's own names and codes for the settings, operations and errors that rheostat uses."""

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
AUTO_LEADER_REBALANCE = "auto.leader.rebalance.enable"
LEADER_CHECK_S, LEADER_CHECK_S_DEFAULT = "leader.imbalance.check.interval.seconds", 300
# Without effect in KRaft mode; removed in Kafka 4.0.
LEADER_IMBALANCE_PERCENT = "leader.imbalance.per.broker.percentage"
ALL_REPLICAS = "*"
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
QUOTA_SAMPLES = "replication.quota.window.num"
QUOTA_SAMPLES_DEFAULT = 11
QUOTA_SAMPLE_S = "replication.quota.window.size.seconds"
QUOTA_SAMPLE_S_DEFAULT = 1
MUTATION_SAMPLES = "controller.quota.window.num"
MUTATION_WINDOW_S = "controller.quota.window.size.seconds"
MIN_IN_SYNC = "min.insync.replicas"
REMOTE_STORAGE = "remote.storage.enable"  # Setting of a topic: the topic is tiered (KIP-405).
# Setting of a broker: its new replicas skip the part of the log that is in the remote storage (KIP-1023).
FETCH_LAST_TIERED = "follower.fetch.last.tiered.offset.enable"
CORDONED_LOG_DIRS = "cordoned.log.dirs"
ALL_LOG_DIRS = "*"  # As the value of the setting above: every log directory of the broker.
LOG_DIRS = "log.dirs"
LOG_DIR = "log.dir"  # Used by a broker that does not set ``log.dirs``.

RESOURCE_TOPIC = 2
RESOURCE_BROKER = 4

OP_SET = 0
OP_DELETE = 1
OP_APPEND = 2  # List settings only.
OP_SUBTRACT = 3

# Values of DescribeConfigs' config_source.
SOURCE_TOPIC = 1
SOURCE_DYNAMIC_BROKER = 2
SOURCE_DYNAMIC_DEFAULT_BROKER = 3
SOURCE_DEFAULT = 5

# Codes in the authorized operations of a Metadata response.
OPERATIONS = {"Read": 3, "Write": 4}

ERROR_NONE = 0
ERROR_UNKNOWN_TOPIC_OR_PARTITION = 3
ERROR_REQUEST_TIMED_OUT = 7
ERROR_TOPIC_AUTHORIZATION_FAILED = 29
ERROR_GROUP_AUTHORIZATION_FAILED = 30
ERROR_CLUSTER_AUTHORIZATION_FAILED = 31
ERROR_INVALID_TOPIC = 17
ERROR_TOPIC_ALREADY_EXISTS = 36
ERROR_INVALID_CONFIG = 40
ERROR_NOT_CONTROLLER = 41
ERROR_POLICY_VIOLATION = 44
ERROR_COORDINATOR_NOT_AVAILABLE = 15
ERROR_NOT_COORDINATOR = 16
ERROR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
ERROR_SECURITY_DISABLED = 54
ERROR_ELECTION_NOT_NEEDED = 84
ERROR_NO_REASSIGNMENT_IN_PROGRESS = 85
ERROR_THROTTLING_QUOTA_EXCEEDED = 89

GROUPS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"

# The feature whose level grows with each version of Kafka, and a request that only nodes in KRaft mode know.
METADATA_VERSION = "metadata.version"
API_DESCRIBE_QUORUM = 55

# Values of FindCoordinator's key_type.
COORDINATOR_OF_GROUP = 0
COORDINATOR_OF_TRANSACTION = 1

# Client quotas: the entity types that can have a mutation quota, and the quota's key (partitions/s).
QUOTA_USER = "user"
QUOTA_CLIENT_ID = "client-id"
MUTATION_RATE = "controller_mutation_rate"
