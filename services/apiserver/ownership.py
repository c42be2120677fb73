"""Field ownership: how managedFields follow every write, and when a write changes nothing."""

from services.apiserver.call import Call
from services.apiserver.kinds.model import Kind
from services.apiserver.store import Manifest


class Ownership:
    """Keeps metadata.managedFields of written objects."""

    def created(self, kind: Kind, obj: Manifest, call: Call) -> None:
        """A new object by a plain create."""
        obj["metadata"].pop("managedFields", None)

    def updated(self, kind: Kind, new: Manifest, old: Manifest, call: Call, subresource: str) -> None:
        """A changed object by an update or patch."""

    @staticmethod
    def unchanged(new: Manifest, old: Manifest) -> bool:
        """Whether writing `new` over `old` would change anything but times in managedFields."""
        if new.keys() != old.keys():
            return False
        for name, value in new.items():
            if name == "metadata":
                continue
            if old[name] != value:
                return False
        return _metadata(new["metadata"]) == _metadata(old["metadata"])


def _metadata(meta: Manifest) -> Manifest:
    fields = [{k: v for k, v in f.items() if k != "time"} for f in meta.get("managedFields") or []]
    return {**meta, "managedFields": fields}
