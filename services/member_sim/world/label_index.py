"""An index of objects by namespace and one label, so that pods and services find each other without scanning."""

from collections.abc import Iterable

from schemas.manifest import Manifest

Pair = tuple[str, str]


class LabelIndex:
    """Objects under (namespace, label, value); an object may be under several."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], dict[str, Manifest]] = {}

    def put(self, namespace: str, pairs: Iterable[Pair], manifest: Manifest) -> None:
        """Add an object, or replace what was there under its name."""
        name = manifest["metadata"]["name"]
        for label, value in pairs:
            self._found.setdefault((namespace, label, value), {})[name] = manifest

    def drop(self, namespace: str, pairs: Iterable[Pair], name: str) -> None:
        """Take an object away from under these labels."""
        for label, value in pairs:
            where = (namespace, label, value)
            there = self._found.get(where)
            if there is not None:
                there.pop(name, None)
                if not there:
                    del self._found[where]

    def under(self, namespace: str, pair: Pair) -> dict[str, Manifest]:
        """Return the objects under one label by name."""
        return self._found.get((namespace, *pair), {})

    def matching(self, namespace: str, selector: dict[str, str]) -> list[Manifest]:
        """Return the objects whose labels contain the selector, which must not be empty."""
        fewest = min((self.under(namespace, pair) for pair in selector.items()), key=len)
        wanted = selector.items()
        return [m for m in fewest.values() if wanted <= (m["metadata"].get("labels") or {}).items()]
