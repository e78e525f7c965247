"""Deletes topics and consumer groups. Only commands do so, never the tuner."""

from __future__ import annotations

from collections.abc import Collection

import kafka.errors

from streaming.shared.kafka.topic_mutations import TopicMutationClient
from streaming.shared.kafka.values import ClusterError, MissingPermission, Unreachable


class RemovalClient(TopicMutationClient):
    """An admin connection that deletes what rheostat has created. Not thread-safe."""

    def delete_topics(self, topics: Collection[str]) -> dict[str, ClusterError | None]:
        """Deletes each topic. Returns errors by topic (None means success, also if the topic does not exist).

        Raises:
            ClusterError: no broker is known.
        """
        brokers = self.brokers()
        if not brokers:
            raise Unreachable("no broker is alive")
        return {topic: self.delete_through(brokers[0].node, topic) for topic in topics}

    def groups(self, names: Collection[str]) -> set[str]:
        """Returns which of the groups exist and this client may see."""
        listed = self._connection.call("list groups", lambda admin: admin.list_groups())
        return {str(one["group_id"]) for one in listed} & set(names)

    def delete_group(self, group: str) -> ClusterError | None:
        """Deletes a group without members. Returns the error; None for success, also if the group does not exist."""
        try:
            results = self._connection.call(f"delete group {group}", lambda admin: admin.delete_groups([group]))
        except ClusterError as error:
            return error
        name = str(results.get(group, "no answer"))  # The name of an error, or OK.
        if name in ("OK", kafka.errors.GroupIdNotFoundError.__name__):
            return None
        if name == kafka.errors.GroupAuthorizationFailedError.__name__:
            return MissingPermission(f"Delete on Group {group}", f"to delete group {group}")
        return ClusterError(f"Kafka refused to delete group {group}: {name}")
