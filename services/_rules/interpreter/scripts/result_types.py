"""The typed results of interpreter scripts: requirements, components, dependencies.

Unknown members are dropped, members of the wrong type are errors, quantities are written canonically.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, convert, to_builtins

from services._rules.interpreter.common.interpretation import InterpretError
from services._rules.interpreter.native.dependencies import Reference, validate_references
from services._rules.interpreter.native.replicas import Requirements
from services._rules.kubernetes.quantity import QuantityError, parse

_Int32 = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
_T = TypeVar("_T")


class Expression(Struct):
    """One term of a selector."""

    key: str = ""
    operator: str = ""
    values: list[str] | UnsetType = UNSET


class NodeTerm(Struct):
    """Expressions that a node satisfies all of."""

    matchExpressions: list[Expression] | UnsetType = UNSET  # noqa: N815 - the name in manifests
    matchFields: list[Expression] | UnsetType = UNSET  # noqa: N815


class NodeSelector(Struct):
    """Terms of which a node satisfies one."""

    nodeSelectorTerms: list[NodeTerm] | None = None  # noqa: N815


class Toleration(Struct, omit_defaults=True):
    """A taint that is tolerated."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    tolerationSeconds: int | None = None  # noqa: N815


class NodeClaim(Struct):
    """What a replica wants of its node."""

    hardNodeAffinity: NodeSelector | UnsetType = UNSET  # noqa: N815
    nodeSelector: dict[str, str] | UnsetType = UNSET  # noqa: N815
    tolerations: list[Toleration] | UnsetType = UNSET


class ReplicaRequirements(Struct, omit_defaults=True):
    """What one replica needs."""

    nodeClaim: NodeClaim | UnsetType = UNSET  # noqa: N815
    resourceRequest: dict[str, str | int | float] | UnsetType = UNSET  # noqa: N815
    namespace: str = ""
    priorityClassName: str = ""  # noqa: N815


class Component(Struct):
    """One part of a workload of several pod templates."""

    name: str = ""
    replicas: _Int32 = 0
    replicaRequirements: ReplicaRequirements | UnsetType = UNSET  # noqa: N815


class Selector(Struct):
    """Labels that the objects meant have."""

    matchLabels: dict[str, str] | UnsetType = UNSET  # noqa: N815
    matchExpressions: list[Expression] | UnsetType = UNSET  # noqa: N815


class Dependency(Struct, omit_defaults=True):
    """One object, or those that a selector picks."""

    apiVersion: str = ""  # noqa: N815
    kind: str = ""
    namespace: str = ""
    name: str = ""
    labelSelector: Selector | UnsetType = UNSET  # noqa: N815


def requirements_of(value: Any) -> Requirements:
    """The requirements of a replica; raises InterpretError for a member of another type."""
    return _canonical(_typed(value, ReplicaRequirements, "requirements"))


def components_of(value: Any) -> list[dict[str, Any]]:
    """The components of a workload; raises InterpretError for a member of another type."""
    components: list[dict[str, Any]] = _typed(value, list[Component], "components")
    for component in components:
        if "replicaRequirements" in component:
            _canonical(component["replicaRequirements"])
    return components


def dependencies_of(values: Sequence[Any]) -> list[Reference]:
    """The dependencies that scripts name together: valid, each once, in order; raises InterpretError for invalid ones.

    Those with a label selector are never taken for one another (docs/sources.md#interpreters).
    """
    named: dict[tuple[str, ...], Reference] = {}
    selecting: list[Reference] = []
    for value in values:
        references = _typed(value, list[Dependency], "dependencies")
        validate_references(references)
        for reference in references:
            if "labelSelector" in reference:
                selecting.append(reference)
            else:
                named[_rank(reference)] = reference
    return sorted([*named.values(), *selecting], key=_rank)


_RANK: Final = ("apiVersion", "kind", "namespace", "name")


def _rank(reference: Reference) -> tuple[str, ...]:
    return tuple(reference.get(member, "") for member in _RANK)


def _canonical(requirements: Requirements) -> Requirements:
    request = requirements.get("resourceRequest")
    if request:
        for name, amount in request.items():
            try:
                request[name] = str(parse(amount))
            except QuantityError as problem:
                raise InterpretError(str(problem), f"resourceRequest.{name}") from None
    return requirements


def _typed(value: Any, kind: type[_T], what: str) -> Any:
    try:
        return to_builtins(convert(value, kind))
    except ValidationError as problem:
        text = str(problem).replace(" - at `$", f" - at `{what}")
        raise InterpretError(text if "at `" in text else f"{what}: {text}") from None
