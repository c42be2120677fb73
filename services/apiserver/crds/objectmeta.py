"""The metadata of custom objects and embedded resources: known fields, JSON types, and the decoder's complaints."""

from typing import Any, Final

import msgspec

_STRING: Final = "string"
_STRINGS: Final = "map"
_LIST: Final = "list"
_NUMBER: Final = "number"
_FIELDS: Final = {
    "annotations": _STRINGS,
    "clusterName": _STRING,
    "creationTimestamp": _STRING,
    "deletionGracePeriodSeconds": _NUMBER,
    "deletionTimestamp": _STRING,
    "finalizers": _LIST,
    "generateName": _STRING,
    "generation": _NUMBER,
    "labels": _STRINGS,
    "managedFields": _LIST,
    "name": _STRING,
    "namespace": _STRING,
    "ownerReferences": _LIST,
    "resourceVersion": _STRING,
    "selfLink": _STRING,
    "uid": _STRING,
}


def pruned_metadata(meta: Any) -> Any:
    """Return metadata without fields that object metadata does not have, and without nulls."""
    if not isinstance(meta, dict) or all(name in _FIELDS and value is not None for name, value in meta.items()):
        return meta
    return {name: value for name, value in meta.items() if name in _FIELDS and value is not None}


def metadata_error(meta: Any) -> str:
    """Return the decoder's error about metadata of a wrong shape; empty if the shape is right."""
    if meta is None:
        return ""
    text = msgspec.json.encode(meta, order="sorted").decode()
    if not isinstance(meta, dict):
        return _at(text, 0, "readObjectStart", "expect { or n, but found ")
    for name in sorted(meta):
        kind = _FIELDS.get(name)
        found = _field_error(kind, name, meta[name], text) if kind else ""
        if found:
            # The decoder goes on and puts the name of every later field before the first complaint.
            chain = [name, *(other for other in sorted(meta) if other > name and other in _FIELDS)]
            return "v1.ObjectMeta." + "".join(f"{_go_name(other)}: " for other in reversed(chain)) + found
    return ""


def _field_error(kind: str, name: str, value: Any, text: str) -> str:
    start = _value_start(text, name)
    match kind:
        case "string" if not isinstance(value, str) and value is not None:
            return _at(text, start, "ReadString", 'expects " or n, but found ')
        case "map" if not isinstance(value, dict) and value is not None:
            return _at(text, start, "ReadMapCB", "expect { or n, but found ")
        case "map" if value is not None:
            for key in sorted(value):
                if not isinstance(value[key], str) and value[key] is not None:
                    inner = _value_start(text, key, start)
                    return _at(text, inner, "ReadString", 'expects " or n, but found ')
        case "list" if not isinstance(value, list) and value is not None:
            return _at(text, start, "decode slice", "expect [ or n, but found ")
        case "number" if (not isinstance(value, int) or isinstance(value, bool)) and value is not None:
            return _at(text, start, "readUint64", "unexpected character: ")
    return ""


def _value_start(text: str, key: str, after: int = 0) -> int:
    marker = msgspec.json.encode(key).decode() + ":"
    return text.index(marker, after) + len(marker)


def _at(text: str, position: int, operation: str, expected: str) -> str:
    head = position + 1
    near, wide = text[max(0, head - 10) : head + 10], text[max(0, head - 50) : head + 50]
    byte = head - max(0, head - 10)
    return (
        f"{operation}: {expected}{text[position]}, error found in #{byte} byte of ...|{near}|..., "
        f"bigger context ...|{wide}|..."
    )


def _go_name(name: str) -> str:
    return "UID" if name == "uid" else name[0].upper() + name[1:]
