"""The port of the loop on top of the embedded API server: the same checks as over HTTP, without bytes in between."""

from collections.abc import AsyncIterator

from schemas.manifest import Manifest
from services._rules.kubernetes.rbac.user_names import MASTERS
from services.apiserver.core.request_context import Call, Identity
from services.apiserver.core.status_errors import ApiError
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.server import ApiServer
from services.apiserver.store.store_port import Compacted, Entry
from services.apiserver.writes.object_writes import Outcome as Stored
from services.member_sim.member_port import Change, Expired, Refused, WriteOutcome
from services.member_sim.world.world_model import KINDS, ONLY_NAMED, Write

MANAGER = "member-sim"
USER = Identity("system:member-sim", "member-sim", (MASTERS,))


class Embedded:
    """Reads, follows and writes the objects of one API server in this process."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._local = server.local.as_user(USER, MANAGER)
        self._where = {resource: (version, resource.partition(".")[0]) for resource, (version, _) in KINDS.items()}

    async def read(self, resource: str) -> tuple[list[Manifest], str]:
        """Return all objects of a resource and the revision of the list."""
        version, plural = self._where[resource]
        revision = str(self._local.revision)
        return self._local.list(version, plural, name=ONLY_NAMED.get(resource, "")), revision

    async def watch(self, resource: str, revision: str) -> AsyncIterator[Change]:
        """Yield what changes after a revision; raises Expired when the history is gone."""
        version, plural = self._where[resource]
        try:
            changes = self._local.watch(version, plural, revision=int(revision), name=ONLY_NAMED.get(resource, ""))
            async for word, manifest in changes:
                yield Change(manifest, word == "DELETED")
        except Compacted as e:
            raise Expired(str(e)) from e

    async def perform(self, write: Write) -> WriteOutcome:
        """Carry out a write; raises Refused."""
        version, plural = self._where[write.key.resource]
        body = write.body or {}
        try:
            if write.op == "create":
                return WriteOutcome(await self._local.create(version, plural, body), gone=False)
            if write.op == "update":
                return WriteOutcome(await self._local.update(version, plural, body), gone=False)
            if write.op == "delete":
                return await self._delete(version, plural, write)
            return WriteOutcome(await self._change(self._local.kind(version, plural), write, body), gone=False)
        except ApiError as e:
            raise Refused(e.code, e.reason, e.message) from e

    async def _delete(self, version: str, plural: str, write: Write) -> WriteOutcome:
        options: Manifest = {"propagationPolicy": "Background"}
        if write.uid:
            options["preconditions"] = {"uid": write.uid}
        if write.grace is not None:
            options["gracePeriodSeconds"] = write.grace
        gone = await self._local.delete(version, plural, write.key.namespace, write.key.name, **options)
        return WriteOutcome(None, gone)

    async def _change(self, kind: Kind, write: Write, body: Manifest) -> Manifest:
        """Write a status or a node name over whatever the object is by now, as long as it is the same object."""

        def make(old: Manifest) -> Manifest:
            meta = old["metadata"]
            if write.uid and meta["uid"] != write.uid:
                raise ApiError(409, "Conflict", f"{write.key.name} was deleted and created again", {})
            if write.op == "status":
                kept = {**meta}
                if write.annotations:
                    kept["annotations"] = {**(meta.get("annotations") or {}), **write.annotations}
                return {**old, "metadata": kept, "status": body}
            return _bound(old, body["node"])

        call = Call(USER, verb="update", manager=MANAGER)
        outcome = await self._server.objects.update(
            kind,
            write.key.namespace,
            write.key.name,
            make,
            call,
            subresource="status" if write.op == "status" else "binding",
            patch=True,
        )
        return _shown(kind, outcome)


def _bound(pod: Manifest, node: str) -> Manifest:
    if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
        raise ApiError(409, "Conflict", f"pod {pod['metadata']['name']} has a node or is being deleted", {})
    return {**pod, "metadata": {**pod["metadata"]}, "spec": {**pod["spec"], "nodeName": node}}


def _shown(kind: Kind, outcome: Stored) -> Manifest:
    return kind.from_store(outcome.obj) if isinstance(outcome, Entry) else outcome
