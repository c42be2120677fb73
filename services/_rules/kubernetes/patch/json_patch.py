"""Applies JSON Patch (RFC 6902) and JSON merge patch (RFC 7386) the way a Kubernetes API server does.

Both are pure: the original is never changed, and whatever a patch does not touch is shared between the original and the
result. The dialect is that of the Go library behind the API server, which differs from the RFCs in places: negative
list indexes count from the end, a missing `value` is null, a first path segment is dropped unseen, `test` against a
missing field passes for null, the empty path is the document, and a merge patch drops nulls from lists that it brings.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from schemas.manifest import Manifest

MAX_OPERATIONS: Final = 10_000
MAX_COPIED: Final = 3 << 20
"""Bytes of JSON that all `copy` operations of one patch may add: each of them can double the object."""
_INDEX: Final = re.compile(r"[+-]?[0-9]+")
_REJECTED: Final = "the server rejected our request due to an error in our request"


class PatchError(Exception):
    """A patch that cannot be applied; `status`, `reason`, `message` and `details` are those of the Status to answer."""

    def __init__(self, message: str, *, status: int = 500, reason: str = "", details: Manifest | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.details = details

    @classmethod
    def bad_request(cls, message: str) -> "PatchError":
        """Return the error of a patch document that has the wrong form (400)."""
        return cls(message, status=400, reason="BadRequest")

    @classmethod
    def rejected(cls) -> "PatchError":
        """Return the error of a JSON Patch whose operations do not fit the object (422, without a hint)."""
        return cls(_REJECTED, status=422, reason="Invalid", details={})


def json_patch(original: Manifest, operations: Any, *, absent_is_null: bool = False) -> Any:
    """Return `original` with the operations of a JSON Patch applied in order.

    With `absent_is_null` a member that an object lacks reads as null, which is how an API server takes the patches of
    its clients and of mutating webhooks: `replace` sets such a member and `copy` from it writes null. Overrides and
    interpreter webhooks do without it: there both are refused, and `add` may replace the whole document.

    Raises PatchError: 400 when the document is no list of operations, 413 when there are too many, 422 when one of
    them fails.
    """
    if operations is None and absent_is_null:
        return original
    if not isinstance(operations, list):
        raise PatchError.bad_request(
            f"json: cannot unmarshal {json_type(operations)} into Go value of type jsonpatch.Patch"
        )
    for operation in operations:
        # One that is null is read, as an operation without a name.
        if operation is not None and not isinstance(operation, dict):
            raise PatchError.bad_request(
                f"json: cannot unmarshal {json_type(operation)} into Go value of type jsonpatch.Operation"
            )
    if len(operations) > MAX_OPERATIONS:
        raise PatchError(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}",
            status=413,
            reason="RequestEntityTooLarge",
            details={},
        )
    document = _Document(original, absent_is_null=absent_is_null)
    for operation in operations:
        try:
            apply = None if operation is None else _OPERATIONS.get(operation.get("op", ""))
            if apply is None:
                raise PatchError.rejected()
            apply(document, operation)
        except (KeyError, IndexError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise PatchError.rejected() from error
    return document.root


def merge_patch(original: Manifest, patch: Any) -> Any:
    """Return `original` with a JSON merge patch applied; null deletes, and a list takes the place of the whole.

    Raises PatchError when the patch is neither an object nor a list.
    """
    if isinstance(patch, list):
        return _without_null_members(patch)
    if not isinstance(patch, dict):
        raise PatchError("Invalid JSON Patch")
    return _merge(original, patch)


def merge_difference(before: Manifest, after: Manifest) -> Manifest:
    """The JSON merge patch that turns one object into the other."""
    patch: Manifest = {}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            inner = merge_difference(old, value)
            if inner:
                patch[name] = inner
        elif name not in before or old != value:
            patch[name] = value
    patch.update((name, None) for name in before.keys() - after.keys())
    return patch


def json_type(value: Any) -> str:
    """Return the name of a decoded JSON value's type as Go's decoder writes it."""
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def same_json(left: Any, right: Any) -> bool:
    """Compare two decoded JSON values; true is not 1, but 1 is 1.0."""
    # Pairs that wait take the place of calls, however deep the values are.
    waiting = [(left, right)]
    while waiting:
        left, right = waiting.pop()
        if isinstance(left, dict):
            if not isinstance(right, dict) or left.keys() != right.keys():
                return False
            waiting += [(value, right[key]) for key, value in left.items()]
        elif isinstance(left, list):
            if not isinstance(right, list) or len(left) != len(right):
                return False
            waiting += zip(left, right, strict=True)
        elif left != right or isinstance(left, bool) != isinstance(right, bool):
            return False
    return True


def _merge(original: Mapping[str, Any], patch: Mapping[str, Any]) -> Manifest:
    result = dict(original)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
            continue
        current = result.get(key)
        if isinstance(current, dict):
            result[key] = _merge(current, value) if isinstance(value, dict) else value
        else:
            result[key] = _without_null_members(value)
    return result


def _without_null_members(value: Any) -> Any:
    """Return a value without the members that are null; a list keeps its items, and so their places."""
    if isinstance(value, dict):
        return {key: _without_null_members(item) for key, item in value.items() if item is not None}
    return [_without_null_members(item) for item in value] if isinstance(value, list) else value


def without_nulls(value: Any) -> Any:
    """Return a value without the members and items that are null."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value if item is not None]
    return value


class _Document:
    """A JSON document under change: containers are copied once, on the way to the first change inside them."""

    def __init__(self, root: Any, *, absent_is_null: bool) -> None:
        self.root = root
        self.absent_is_null = absent_is_null
        self._own: dict[int, Any] = {}
        self._copied = 0

    def parent(self, path: str, *, change: bool) -> tuple[Any, str]:
        """Return the container that holds the last segment of `path`, and that segment; raises if there is none."""
        segments = path.split("/")[1:]
        if not segments:
            raise KeyError(path)
        keys = [segment.replace("~1", "/").replace("~0", "~") for segment in segments]
        node = self.root
        if change:
            node = self.root = self._owned(node)
        for key in keys[:-1]:
            position: Any = _index(key, len(node)) if isinstance(node, list) else key
            child = node[position]
            if not isinstance(child, dict | list):
                raise TypeError(path)
            if change:
                child = node[position] = self._owned(child)
            node = child
        return node, keys[-1]

    def get(self, path: str) -> Any:
        """Return the value at `path`; raises KeyError or IndexError if there is none."""
        node, key = self.parent(path, change=False)
        if isinstance(node, list):
            return node[_index(key, len(node))]
        return node.get(key) if self.absent_is_null else node[key]

    def add(self, path: str, value: Any) -> None:
        """Set a field, or insert into a list."""
        if path == "" and not self.absent_is_null:
            self._become(value)
            return
        node, key = self.parent(path, change=True)
        if isinstance(node, list):
            node.insert(len(node) if key == "-" else _index(key, len(node) + 1), value)
        else:
            node[key] = value

    def remove(self, path: str) -> Any:
        """Take away and return the value at `path`."""
        node, key = self.parent(path, change=True)
        return node.pop(_index(key, len(node)) if isinstance(node, list) else key)

    def copy(self, source: str, path: str) -> None:
        """Add what is at `source` at `path`, too; raises PatchError once a patch copies too much."""
        value = self.get(source)
        self._copied += len(msgspec.json.encode(value))
        if self._copied > MAX_COPIED:
            raise PatchError.rejected()
        # A real copy: two places sharing one container would change together.
        self.add(path, _clone(value))

    def replace(self, path: str, value: Any) -> None:
        """Put another value in place of the one at `path`."""
        if path == "":
            if isinstance(value, dict | list) or not self.absent_is_null:
                self._become(value)
            return
        node, key = self.parent(path, change=True)
        position: Any = _index(key, len(node)) if isinstance(node, list) else key
        if isinstance(node, list) or not self.absent_is_null:
            _ = node[position]
        node[position] = value

    def test(self, path: str, value: Any) -> bool:
        """Return whether the value at `path` is `value`; an absent one is null."""
        if path == "":
            return same_json(self.root, value)
        node, key = self.parent(path, change=False)
        return same_json(node[_index(key, len(node))] if isinstance(node, list) else node.get(key), value)

    def _become(self, value: Any) -> None:
        """Put another document in place of the whole; raises TypeError for a value that is none."""
        if not isinstance(value, dict | list):
            raise TypeError(value)
        self.root = value

    def _owned(self, node: Any) -> Any:
        if id(node) in self._own:
            return node
        copy = dict(node) if isinstance(node, dict) else list(node)
        # Held here so that no later container can get the same id.
        self._own[id(copy)] = copy
        return copy


def _index(key: str, length: int) -> int:
    if not _INDEX.fullmatch(key):
        raise ValueError(key)
    index = int(key)
    if index < 0:
        index += length
    if not 0 <= index < length:
        raise IndexError(key)
    return index


def _clone(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _clone(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clone(item) for item in value]
    return value


def _add(document: _Document, operation: Manifest) -> None:
    document.add(operation["path"], operation.get("value"))


def _remove(document: _Document, operation: Manifest) -> None:
    document.remove(operation["path"])


def _replace(document: _Document, operation: Manifest) -> None:
    document.replace(operation["path"], operation.get("value"))


def _move(document: _Document, operation: Manifest) -> None:
    document.add(operation["path"], document.remove(operation["from"]))


def _copy(document: _Document, operation: Manifest) -> None:
    document.copy(operation["from"], operation["path"])


def _test(document: _Document, operation: Manifest) -> None:
    if not document.test(operation["path"], operation.get("value")):
        raise PatchError.rejected()


_OPERATIONS: Final[dict[str, Callable[[_Document, Manifest], None]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
