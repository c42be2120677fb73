"""The annotation in which `kubectl apply` keeps what it applied last: taking over from it, and keeping it current."""

from typing import Final

import msgspec

from schemas.manifest import Manifest

KUBECTL: Final = "kubectl"
"""The manager whose applies take over from client-side ones."""
ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
_MOST: Final = 256 * 1024
_encode: Final = msgspec.json.Encoder(order="sorted").encode
_HTML: Final = ((b"&", rb"\u0026"), (b"<", rb"\u003c"), (b">", rb"\u003e"))


def _annotations(obj: Manifest) -> Manifest:
    found = (obj.get("metadata") or {}).get("annotations")
    return found if isinstance(found, dict) else {}


def last_applied(live: Manifest) -> Manifest | None:
    """The configuration in the annotation; None where there is none that can be read."""
    text = _annotations(live).get(ANNOTATION)
    if not isinstance(text, str):
        return None
    try:
        config = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return config if isinstance(config, dict) else None


def with_last_applied(obj: Manifest, config: Manifest) -> Manifest:
    """The object with the configuration in its annotation, if it has one; parts are shared."""
    if not _annotations(obj).get(ANNOTATION):
        return obj
    annotations = {name: value for name, value in _annotations(config).items() if name != ANNOTATION}
    shown = dict(config)
    if "annotations" in (config.get("metadata") or {}):
        shown["metadata"] = {**config["metadata"], "annotations": annotations}
    raw = _encode(shown)
    for letter, escaped in _HTML:
        raw = raw.replace(letter, escaped)
    kept = dict(_annotations(obj))
    if len(raw) < _MOST:
        kept[ANNOTATION] = raw.decode() + "\n"
    else:
        del kept[ANNOTATION]
    return {**obj, "metadata": {**obj["metadata"], "annotations": kept}}
