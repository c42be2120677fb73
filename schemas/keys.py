"""Names one Kubernetes object across the log: resource, group, namespace and name, and the shard it belongs to."""

from __future__ import annotations

from binascii import crc32

from msgspec import Struct

SHARDS = 16


class ObjectKey(Struct, frozen=True, order=True, array_like=True):
    """Identity of an object in the control plane, independent of its version and uid.

    `resource` is the lower-case plural, `group` is empty for the core group, `namespace` is empty for
    cluster-scoped objects.
    """

    group: str
    resource: str
    namespace: str
    name: str

    @property
    def group_resource(self) -> str:
        """`deployments.apps`, or `configmaps` for the core group."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def shard(self) -> int:
        """Partition of every facet of this object, 0 to 15; stable for ever."""
        return crc32(str(self).encode()) % SHARDS

    def __str__(self) -> str:
        return f"{self.group_resource}/{self.namespace or '_'}/{self.name}"


class PolicyKey(Struct, frozen=True, order=True, array_like=True):
    """Identity of a policy object: its kind, namespace (empty when cluster-wide) and name."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace or '_'}/{self.name}"
