"""Overriders that change any place: plaintext on the object, fieldOverrider inside a text of it (reference 03 §2.8)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes.manifest_checks import is_readable
from services._rules.kubernetes.patch.json_patch import PatchError, json_patch
from services._rules.overrides import embedded_json, embedded_yaml, pointer
from services._rules.overrides.override_errors import StepError
from services._rules.overrides.pointer import PointerError

Step = Callable[[Manifest], Manifest]


def plaintext_step(items: Sequence[Mapping[str, Any]]) -> Step:
    """Step of all plaintext overriders of a rule: they form one patch, applied whole or not at all."""
    operations = [_operation(item, "path") for item in items]

    def apply(manifest: Manifest) -> Manifest:
        changed: Any = manifest
        for operation in operations:
            changed = _patched(changed, operation, f"plaintext {operation['op']} at {operation['path']}")
        if not is_readable(changed):
            raise StepError("plaintext", "what is left is no object: apiVersion and kind have to stay")
        if not isinstance(changed.get("metadata") or {}, dict):
            raise StepError("plaintext", "what is left has metadata that is no object")
        return changed  # type: ignore[no-any-return]

    return apply


def field_step(item: Mapping[str, Any]) -> Step:
    """Step of one fieldOverrider: the text at fieldPath is parsed, patched and written back."""
    path = item.get("fieldPath") or ""
    where = f"fieldOverrider at {path}"
    yaml_items, json_items = item.get("yaml") or (), item.get("json") or ()
    operations = [_operation(one, "subPath") for one in yaml_items or json_items]

    def patched(document: Any) -> Any:
        for operation in operations:
            inside = f"{where}, {operation['op']} at {operation['path']}"
            document = _patched(embedded_json.expanded(document, operation["path"]), operation, inside)
        return document

    def apply(manifest: Manifest) -> Manifest:
        try:
            steps = pointer.tokens(path)
            text = pointer.get(manifest, steps)
            if not isinstance(text, str):
                raise StepError(where, "the value is no text that holds JSON or YAML")
            if not operations:
                changed = ""
            elif yaml_items:
                changed = embedded_yaml.changed(text, patched)
            else:
                changed = embedded_json.changed(text, patched)
            return pointer.replace(manifest, steps, changed)  # type: ignore[no-any-return]
        except (PointerError, embedded_json.EmbeddedTextError) as problem:
            raise StepError(where, str(problem)) from None

    return apply


def _operation(item: Mapping[str, Any], path_field: str) -> dict[str, Any]:
    return {"op": item.get("operator", ""), "path": item.get(path_field) or "", "value": item.get("value")}


def _patched(document: Any, operation: dict[str, Any], where: str) -> Any:
    if not operation["path"] and operation["op"] in _WHOLE:
        # The empty path is the document itself.
        if not isinstance(operation["value"], dict | list):
            raise StepError(where, "the whole document can only become an object or a list")
        return operation["value"]
    try:
        return json_patch(document, [operation])
    except PatchError:
        raise StepError(where, _REASONS.get(operation["op"], "this is no known operator")) from None


_WHOLE = ("add", "replace")
_REASONS = {
    "add": "the object or list that it goes into does not exist, or the position is outside of the list",
    "remove": "there is nothing at this path to remove",
    "replace": "there is nothing at this path to replace",
}
