"""Admission by namespace: nothing is created in a namespace that does not exist or is going away."""

from services.apiserver.admission.chain import Attributes
from services.apiserver.core import status_errors as status
from services.apiserver.store.store_port import Key, Store


class NamespaceLifecycle:
    """The first plugin of the chain."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def mutate(self, attributes: Attributes) -> None:
        """Refuse creations in missing (404) or terminating (403) namespaces."""
        kind = attributes.kind
        if attributes.operation != "CREATE" or not kind.resource.namespaced or kind.virtual:
            return
        name = attributes.namespace
        entry = self._store.get(Key("", "namespaces", "", name))
        if entry is None:
            details = {"name": name, "kind": "namespaces"}
            raise status.ApiError(404, "NotFound", f'namespaces "{name}" not found', details)
        if entry.obj["metadata"].get("deletionTimestamp"):
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {name} is being terminated",
                "field": "metadata.namespace",
            }
            text = f"unable to create new content in namespace {name} because it is being terminated"
            raise status.forbidden(kind.resource, attributes.name, text, [cause])

    async def validate(self, attributes: Attributes) -> None:
        """Nothing to add."""
