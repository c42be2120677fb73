"""The admission plugin that checks expressions of definitions and policies ahead, in slices, so that others go on."""

import asyncio
import time
from typing import Final

from schemas.manifest import Manifest
from services._rules.kubernetes.cel.programs import load
from services.apiserver.admission.chain import Attributes, nothing
from services.apiserver.crds.rule_checks import check_ahead
from services.apiserver.kinds.checks.expressions import policy_expressions

_DEFINITIONS: Final = "apiextensions.k8s.io/customresourcedefinitions"
_POLICIES: Final = "admissionregistration.k8s.io/validatingadmissionpolicies"
_SLICE: Final = 0.005


class ExpressionChecks:
    """Refuses nothing: what it finds is kept and becomes part of the answer when the object is checked."""

    resources: Final = frozenset({_DEFINITIONS, _POLICIES})
    operations: Final = frozenset({"CREATE", "UPDATE"})

    async def mutate(self, attributes: Attributes) -> None:
        """Check the expressions of the new object."""
        new = attributes.new
        if new is None or attributes.subresource:
            return
        if attributes.kind.store_key == _POLICIES:
            await _check_policy(new.get("spec") or {})
        else:
            await _check_definition(new)

    validate = nothing


async def _check_definition(crd: Manifest) -> None:
    for version in crd["spec"].get("versions") or ():
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema:
            await check_ahead(schema)


async def _check_policy(spec: Manifest) -> None:
    await asyncio.to_thread(load)
    begun = time.monotonic()
    for expression in policy_expressions(spec):
        expression.errors()
        if time.monotonic() - begun > _SLICE:
            await asyncio.sleep(0)
            begun = time.monotonic()
