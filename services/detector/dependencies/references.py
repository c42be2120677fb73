"""Reads the references of an owner as interpreters give them, and bounds them (docs/sources.md#dependencies)."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from schemas.manifest import Manifest
from services._rules.interpreter import Interpreter, InterpretError, Operation
from services._rules.interpreter.native.dependencies import validate_references
from services._rules.kubernetes.selectors import compile_selector
from services.detector.binding_request import NATIVE
from services.detector.indexes.selected_objects import KindName, Place, Selection

MOST: Final = 1000
"""References of one object, and objects that they name together."""
LARGEST: Final = 256 << 10
"""Bytes of the references of one object."""
_encoder = msgspec.json.Encoder()


class Reference(Struct, frozen=True, rename="camel"):
    """One object, or those that a selector picks; an omitted namespace is that of the owner."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    label_selector: Manifest | None = None

    @property
    def kind_name(self) -> KindName:
        """API group and kind: versions of one kind hold the same objects."""
        return self.api_version.rpartition("/")[0], self.kind

    def selection(self, namespace: str) -> Selection:
        """What its selector picks in a namespace."""
        group, kind = self.kind_name
        return Selection(Place(group, kind, namespace), compile_selector(self.label_selector))


_decode = msgspec.json.Decoder(tuple[Reference, ...] | None).decode


def references_in(dependencies: Raw | UnsetType) -> tuple[Reference, ...]:
    """The references that a fact carries."""
    return () if isinstance(dependencies, UnsetType) else _decode(dependencies) or ()


def dependencies_of(interpreter: Interpreter, manifest: Manifest) -> Raw | UnsetType:
    """What an object needs beside it, as its interpreter says; unset for a kind of which none says anything.

    Raises InterpretError for references that are not valid or too many, ResultPending where it has to be asked first.
    """
    api_version, kind = str(manifest.get("apiVersion")), str(manifest.get("kind"))
    if not interpreter.hook_enabled(api_version, kind, Operation.DEPENDENCY):
        return UNSET
    found: list[Any] = interpreter.interpret(Operation.DEPENDENCY, manifest)
    if len(found) > MOST:
        raise InterpretError(f"{kind} names {len(found)} dependencies; at most {MOST} are followed")
    validate_references(found)
    # Only what a reference consists of is kept, and in this order; a built-in kind without dependencies has null.
    kept = [{name: item[name] for name in _MEMBERS if item.get(name) not in ("", None)} for item in found]
    none: list[Any] | None = None if NATIVE.hook_enabled(api_version, kind, Operation.DEPENDENCY) else []
    data = _encoder.encode(kept or none)
    if len(data) > LARGEST:
        raise InterpretError(f"the dependencies of the {kind} take {len(data)} bytes; at most {LARGEST} are kept")
    try:
        _decode(data)
    except msgspec.ValidationError as error:
        raise InterpretError(str(error), "dependencies") from None
    return Raw(data)


_MEMBERS: Final = ("apiVersion", "kind", "namespace", "name", "labelSelector")
