"""The four helpers that an interpreter script gets from `require("kube")` (docs/sources.md#interpreters)."""

import math
from collections.abc import Sequence
from typing import Any

from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import InterpretError, describe, object_at
from services._rules.interpreter.common.shape_checks import check_object
from services._rules.interpreter.native.dependencies import Reference, pod_dependencies
from services._rules.interpreter.native.replicas import Requirements, pod_replicas
from services._rules.kubernetes.quantity import NANO, Quantity, QuantityError, parse


def resource_add(texts: Sequence[str]) -> str:
    """The sum of quantities in canonical form; the first that is not zero gives the family of suffixes."""
    total = Quantity(0)
    for text in texts:
        amount = _parsed(text)
        total = Quantity(total.nano + amount.nano, amount.format if total.nano == 0 else total.format)
    return str(total)


def resource_quantity(text: str) -> float:
    """A quantity as a number; raises InterpretError where it is negative or beyond all numbers."""
    amount = _parsed(text).nano / NANO
    if amount < 0 or math.isinf(amount):
        raise InterpretError(f"quantity {text!r} is negative or infinite")
    return amount


def pod_requirements(template: Any) -> Requirements | None:
    """What each pod of a template needs, None where it needs nothing."""
    pod = _template(template)
    check_object("Pod", pod)
    return pod_replicas(pod)[1]


def pod_dependencies_of(template: Any, namespace: str) -> list[Reference] | None:
    """What the pods of a template refer to, None where that is nothing."""
    pod = _template(template)
    check_object("Pod", pod)
    return pod_dependencies(object_at(pod, "spec"), namespace) or None


def _template(value: Any) -> Manifest:
    if value == []:
        return {}
    if type(value) is not dict:
        raise InterpretError(f"a pod template is {describe(value)}, expected an object")
    return value


def _parsed(text: str) -> Quantity:
    try:
        return parse(text)
    except QuantityError as problem:
        raise InterpretError(str(problem)) from None
