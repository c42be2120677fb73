"""The admission plugin that obeys ValidatingAdmissionPolicies where bindings put them into force."""

from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec

from schemas.manifest import Manifest
from services._rules.kubernetes.selectors import LabelSelectorError, compile_selector
from services.apiserver.admission.chain import Attributes, nothing
from services.apiserver.admission.match_constraints import Constraints, namespace_of
from services.apiserver.admission.write_reviews import Decide, ExpressionFailed, Review
from services.apiserver.core import status_errors as status
from services.apiserver.core.status_errors import ApiError
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.kinds.registry import Registry
from services.apiserver.store.store_port import Event, Key, Store

GROUP: Final = "admissionregistration.k8s.io"
POLICIES, BINDINGS = "validatingadmissionpolicies", "validatingadmissionpolicybindings"
_CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}
_LONGEST_MESSAGE: Final = 5 * 1024
_LONGEST_ANNOTATION: Final = 10 * 1024
_FAILURES: Final = "validation.policy.admission.k8s.io/validation_failure"
_REVIEWS: Final = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
"""Groups of questions about permissions, which policies may ask themselves."""


class Binding:
    """One binding, compiled."""

    def __init__(self, raw: Manifest) -> None:
        spec = raw["spec"]
        self.name: str = raw["metadata"]["name"]
        self.actions: list[str] = spec.get("validationActions") or []
        self.params: Manifest | None = spec.get("paramRef")
        match = spec.get("matchResources")
        self.constraints = Constraints(match) if match is not None else None


class Policy:
    """One policy with its bindings, compiled."""

    def __init__(self, raw: Manifest, bindings: list[Binding]) -> None:
        spec = raw["spec"]
        self.name: str = raw["metadata"]["name"]
        self.bindings = bindings
        self.fails = spec.get("failurePolicy", "Fail") != "Ignore"
        self.constraints = Constraints(spec.get("matchConstraints") or {})
        self.param_kind: Manifest | None = spec.get("paramKind")
        self.conditions: list[Manifest] = spec.get("matchConditions") or []
        self.variables: list[Manifest] = spec.get("variables") or []
        self.validations: list[Manifest] = spec.get("validations") or []
        self.annotations: list[Manifest] = spec.get("auditAnnotations") or []


class Violation(msgspec.Struct, frozen=True):
    """What a policy has against a write."""

    message: str
    reason: str = ""


class Misconfigured(Exception):
    """A policy that cannot be applied to a write; the text says why."""


class AdmissionPolicies:
    """Follows policies and bindings, and checks every write by them."""

    def __init__(self, store: Store, registry: Registry, decide: Decide) -> None:
        self._store = store
        self._registry = registry
        self._decide = decide
        self._policies: list[Policy] | None = None

    async def start(self) -> None:
        """Follow the policies."""
        self._store.listen(self._on_event, (GROUP, POLICIES), (GROUP, BINDINGS))

    async def stop(self) -> None:
        """Nothing is open."""

    def _on_event(self, _: Event) -> None:
        self._policies = None

    def _all(self) -> list[Policy]:
        if self._policies is None:
            bound: dict[str, list[Binding]] = {}
            for entry in self._store.list(GROUP, BINDINGS):
                bound.setdefault(entry.obj["spec"].get("policyName", ""), []).append(Binding(entry.obj))
            policies = (entry.obj for entry in self._store.list(GROUP, POLICIES))
            self._policies = [
                Policy(raw, bound[raw["metadata"]["name"]]) for raw in policies if raw["metadata"]["name"] in bound
            ]
        return self._policies

    mutate = nothing

    async def validate(self, attributes: Attributes) -> None:
        """Refuse the write with the first violation whose binding denies; warn of those whose bindings warn."""
        policies = self._all()
        if not policies:
            return
        resource = attributes.kind.resource
        if resource.group in _REVIEWS or (resource.group == GROUP and "admissionpolic" in resource.plural):
            return
        refusal: ApiError | None = None
        for policy in policies:
            async for binding, violation in self._violations(policy, attributes):
                error = self._act(policy, binding, violation, attributes)
                refusal = refusal or error
        if refusal is not None:
            raise refusal

    async def _violations(self, policy: Policy, attributes: Attributes) -> AsyncIterator[tuple[Binding, Violation]]:
        kind = policy.constraints.match(attributes, self._store, self._registry, without_rules=False)
        if kind is None:
            return
        review: Review | None = None
        for binding in policy.bindings:
            if binding.constraints is not None:
                narrowed = binding.constraints.match(attributes, self._store, self._registry, without_rules=True)
                if narrowed is None:
                    continue
            if review is None:
                review = Review(attributes, kind, namespace_of(attributes, self._store), self._decide)
            try:
                for params in self._params(policy, binding, attributes):
                    review.with_params(params, policy.variables)
                    async for violation in _found(policy, review, attributes.call.annotations):
                        yield binding, violation
            except Misconfigured as error:
                if policy.fails:
                    yield binding, Violation(f"failed to configure binding: {error}")

    # -- parameters

    def _params(self, policy: Policy, binding: Binding, attributes: Attributes) -> list[Manifest | None]:
        """The parameters with which the policy is to be evaluated; raises Misconfigured."""
        wanted, ref = policy.param_kind, binding.params
        if wanted is None or ref is None:
            return [None]
        kind = self._registry.by_api_version(wanted.get("apiVersion", ""), wanted.get("kind", ""))
        if kind is None:
            shown = f"{wanted.get('apiVersion')}, Kind={wanted.get('kind')}"
            raise Misconfigured(f"failed to find resource referenced by paramKind: '{shown}'")
        namespace = self._namespace_of_params(kind, ref, attributes)
        found = self._chosen(kind, namespace, ref)
        if found or ref.get("parameterNotFoundAction") == "Allow":
            return list(found)
        raise Misconfigured("no params found for policy binding with `Deny` parameterNotFoundAction")

    @staticmethod
    def _namespace_of_params(kind: Kind, ref: Manifest, attributes: Attributes) -> str:
        given = str(ref.get("namespace") or "")
        if not kind.resource.namespaced:
            if given:
                raise Misconfigured("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
            return ""
        if given:
            return given
        if not attributes.kind.resource.namespaced:
            raise Misconfigured(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
        return attributes.namespace

    def _chosen(self, kind: Kind, namespace: str, ref: Manifest) -> list[Manifest]:
        group, plural = kind.store_group, kind.resource.plural
        if name := ref.get("name"):
            entry = self._store.get(Key(group, plural, namespace, name))
            return [] if entry is None else [kind.from_store(entry.obj)]
        try:
            selector = compile_selector(ref.get("selector") or {})
        except LabelSelectorError as error:
            raise Misconfigured(str(error)) from None
        entries = (entry for entry in self._store.list(group, plural) if entry.key.namespace == namespace)
        return [
            kind.from_store(entry.obj)
            for entry in entries
            if selector.matches(entry.obj["metadata"].get("labels") or {})
        ]

    # -- what follows

    @staticmethod
    def _act(policy: Policy, binding: Binding, violation: Violation, attributes: Attributes) -> ApiError | None:
        where = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}'"
        if "Warn" in binding.actions:
            attributes.call.warnings.append(f"Validation failed for {where}: {violation.message}")
        if "Audit" in binding.actions:
            _note(policy, binding, violation, attributes.call.annotations)
        if "Deny" not in binding.actions:
            return None
        error = status.forbidden(
            attributes.kind.resource, attributes.name, f"{where} denied request: {violation.message}"
        )
        error.reason = violation.reason or "Invalid"
        error.code = _CODES.get(error.reason, 422)
        error.details = {**(error.details or {}), "causes": [{"message": violation.message}]}
        return error


def _note(policy: Policy, binding: Binding, violation: Violation, annotations: dict[str, str]) -> None:
    known = msgspec.json.decode(annotations.get(_FAILURES, "[]"))
    failure = {"message": violation.message, "policy": policy.name, "binding": binding.name}
    known.append({**failure, "validationActions": binding.actions})
    annotations[_FAILURES] = msgspec.json.encode(known).decode()


async def _found(policy: Policy, review: Review, annotations: dict[str, str]) -> AsyncIterator[Violation]:
    """Evaluate a policy on a write with one parameter; what is for the audit log goes into `annotations`."""
    try:
        if not await review.holds(policy.conditions):
            return
    except ExpressionFailed as error:
        if policy.fails:
            yield Violation(str(error))
        return
    for item in policy.validations:
        try:
            if await review.evaluate(item["expression"]) is not True:
                yield Violation(await _message(item, review), item.get("reason") or "")
        except ExpressionFailed as error:
            if policy.fails:
                yield Violation(f"expression '{item['expression'].strip()}' resulted in error: {error}")
    for item in policy.annotations:
        try:
            value = await review.evaluate(item["valueExpression"])
            if isinstance(value, str):
                annotations[f"{policy.name}/{item['key']}"] = value[:_LONGEST_ANNOTATION]
        except ExpressionFailed as error:
            if policy.fails:
                yield Violation(f"expression '{item['valueExpression'].strip()}' resulted in error: {error}")


async def _message(item: Manifest, review: Review) -> str:
    if given := item.get("messageExpression"):
        try:
            text: Any = await review.evaluate(given)
        except ExpressionFailed:
            text = ""
        text = text.strip() if isinstance(text, str) else ""
        if text and "\n" not in text and len(text) <= _LONGEST_MESSAGE:
            return str(text)
    message = (item.get("message") or "").strip()
    return message or f"failed expression: {item['expression'].strip()}"
