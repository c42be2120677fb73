"""Overriders that change containers: images, commands and arguments of workloads (docs/sources.md#overrides)."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import InterpretError
from services._rules.interpreter.common.shape_checks import check_object
from services._rules.overrides import image_overriders as image
from services._rules.overrides import pointer
from services._rules.overrides.image_overriders import ImageError
from services._rules.overrides.override_errors import StepError
from services._rules.overrides.pointer import PointerError

Step = Callable[[Manifest], Manifest]
_ContainerChange = Callable[[Manifest, str], Manifest]

_TEMPLATE: Final = ("spec", "template", "spec")
# Kinds with containers, by kind alone: an API group of the same kind name is treated alike.
_POD_SPECS: Final = {
    "Pod": ("spec",),
    "ReplicaSet": _TEMPLATE,
    "Deployment": _TEMPLATE,
    "DaemonSet": _TEMPLATE,
    "StatefulSet": _TEMPLATE,
    "Job": _TEMPLATE,
}


def image_step(item: Mapping[str, Any]) -> Step:
    """Step of one imageOverrider."""
    component, operator, value = item.get("component", ""), item.get("operator", ""), item.get("value") or ""
    predicate = item.get("predicate")

    def change(current: object, where: str) -> str:
        if not isinstance(current, str):
            raise StepError(where, f"the image is {current!r}, not a text")
        try:
            return image.change(current, component, operator, value)
        except ImageError as problem:
            raise StepError(where, str(problem)) from None

    if predicate is not None:
        return _predicate_step(predicate.get("path") or "", change)

    def change_container(container: Manifest, where: str) -> Manifest:
        current = container.get("image")
        changed = change(current or "", f"imageOverrider at {where}/image")
        return container if changed == current else container | {"image": changed}

    def apply(manifest: Manifest) -> Manifest:
        kind = manifest.get("kind", "")
        if kind in _POD_SPECS:
            try:
                check_object(kind, manifest)
            except InterpretError as problem:
                raise StepError("imageOverrider", f"the object is no valid {kind}: {problem}") from None
        return _change_containers(manifest, "imageOverrider", change_container)

    return apply


def command_step(item: Mapping[str, Any], field: str) -> Step:
    """Step of one commandOverrider or argsOverrider; `field` is `command` or `args`."""
    name, operator, values = item.get("containerName", ""), item.get("operator", ""), item.get("value") or []

    def change_container(container: Manifest, where: str) -> Manifest:
        if (container.get("name") or "") != name:
            return container
        current = container.get(field)
        if current is None:
            current = []
        elif not isinstance(current, list) or not all(isinstance(text, str) for text in current):
            raise StepError(f"{field}Overrider at {where}/{field}", "the value is not a list of texts")
        if operator == "add":
            return container | {field: [*current, *values]}
        if operator == "remove":
            return container | {field: [text for text in current if text not in values]}
        return container

    return lambda manifest: _change_containers(manifest, f"{field}Overrider", change_container)


def _predicate_step(path: str, change: Callable[[object, str], str]) -> Step:
    # The steps are the parts between slashes as they are: escapes mean nothing here.
    steps = path.split("/")[1:]
    where = f"imageOverrider at {path}"

    def apply(manifest: Manifest) -> Manifest:
        try:
            changed = change(pointer.get(manifest, steps), where)
            return pointer.replace(manifest, pointer.tokens(path), changed)  # type: ignore[no-any-return]
        except PointerError as problem:
            raise StepError(where, str(problem)) from None

    return apply


def _change_containers(manifest: Manifest, what: str, change: _ContainerChange) -> Manifest:
    """The manifest with a change applied to each container of a known workload; other kinds stay as they are."""
    steps = _POD_SPECS.get(manifest.get("kind", ""))
    if steps is None:
        return manifest
    spec: Any = manifest
    for step in (*steps, "containers"):
        spec = spec.get(step) if isinstance(spec, dict) else None
        if spec is None:
            return manifest
    path = "/".join(("", *steps, "containers"))
    if not isinstance(spec, list) or not all(isinstance(container, dict) for container in spec):
        raise StepError(f"{what} at {path}", "the value is not a list of objects")
    changed = [change(container, f"{path}/{position}") for position, container in enumerate(spec)]
    if all(new is old for new, old in zip(changed, spec, strict=True)):
        return manifest
    return pointer.replace(manifest, (*steps, "containers"), changed)  # type: ignore[no-any-return]
