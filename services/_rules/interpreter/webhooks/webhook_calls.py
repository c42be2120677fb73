"""Encodes webhook requests for an operation, and decodes the answers (docs/sources.md#interpreter-webhooks).

Results have the form of those of scripts, so that callers need not know which level answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, assert_never

import msgspec
from msgspec import Meta, Struct

from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import InterpretError, InterpretLater, Operation, describe
from services._rules.interpreter.scripts.result_types import components_of, dependencies_of, requirements_of
from services._rules.interpreter.scripts.script_calls import item_arguments
from services._rules.interpreter.webhooks.webhook_index import CONTEXT_VERSION, Webhook
from services._rules.kubernetes.patch.json_patch import PatchError, json_patch

_API_VERSION: Final = f"config.karmada.io/{CONTEXT_VERSION}"
_KIND: Final = "ResourceInterpreterContext"
_LONGEST_TEXT: Final = 300
_Int32 = Annotated[int, Meta(ge=-(2**31), lt=2**31)]


class _Status(Struct):
    code: int = 0
    message: str = ""


class _Response(Struct, rename="camel"):
    uid: str = ""
    successful: bool = False
    status: _Status | None = None
    patch: bytes | None = None
    patch_type: str | None = None
    replicas: _Int32 | None = None
    replica_requirements: Any = None
    components: Any = None
    dependencies: Any = None
    raw_status: Any = None
    healthy: bool | None = None


class _Context(Struct, rename="camel"):
    api_version: str = _API_VERSION
    kind: str = _KIND
    response: _Response | None = None


_decoder: Final = msgspec.json.Decoder(_Context)


def request_body(webhook: Webhook, uid: str, operation: Operation, arguments: Sequence[Any]) -> bytes:
    """What to post; raises InterpretLater where the webhook does not understand it."""
    if CONTEXT_VERSION not in webhook.versions:
        raise webhook.wrong(f"must include {CONTEXT_VERSION}, the version that is spoken", "interpreterContextVersions")
    obj: Manifest = arguments[0]
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    metadata = obj.get("metadata") or {}
    request: Manifest = {
        "uid": uid,
        "kind": {"group": group, "version": version, "kind": obj.get("kind") or ""},
        "name": metadata.get("name") or "",
        "operation": operation,
        "object": obj,
        "replicas": arguments[1] if operation == Operation.REVISE else 0,
    }
    if metadata.get("namespace"):
        request["namespace"] = metadata["namespace"]
    if operation == Operation.RETAIN:
        request["observedObject"] = arguments[1]
    elif operation == Operation.AGGREGATE:
        request["aggregatedStatus"] = item_arguments(arguments[1]) or []
    return msgspec.json.encode({"apiVersion": _API_VERSION, "kind": _KIND, "request": request})


def refused(webhook: Webhook, status: int, answer: bytes) -> InterpretLater:
    """The error of a response with an HTTP status other than success."""
    text = " ".join(answer[:_LONGEST_TEXT].decode(errors="replace").split())
    return webhook.wrong(f"answered HTTP {status}{f': {text}' if text else ''}; expected 200 and a {_KIND}")


def result_of(webhook: Webhook, uid: str, operation: Operation, arguments: Sequence[Any], answer: bytes) -> Any:
    """The result of an operation; raises InterpretLater where the answer does not hold what it must."""
    try:
        context = _decoder.decode(answer)
    except (ValueError, RecursionError) as problem:
        raise webhook.wrong(f"the answer is no {_KIND}: {problem}") from None
    if (context.api_version, context.kind) != (_API_VERSION, _KIND):
        raise webhook.wrong(f"answered a {context.api_version} {context.kind}, expected a {_API_VERSION} {_KIND}")
    response = context.response
    if response is None:
        raise webhook.wrong("is missing", "response")
    if response.uid != uid:
        # Neither uid is quoted: the text of a repeated problem must be constant.
        raise webhook.wrong("is not that of the request" if response.uid else "is missing", "response.uid")
    if not response.successful:
        if response.status is None:
            raise webhook.wrong("is required where response.successful is false", "response.status")
        text = response.status.message[:_LONGEST_TEXT] or "no message"
        raise webhook.wrong(f"{operation} was not successful: {text} (code {response.status.code})")
    try:
        return _result(operation, arguments[0], response)
    except InterpretError as problem:
        raise webhook.wrong(problem.what, f"response.{problem.field}" if problem.field else "") from None


def _result(operation: Operation, obj: Manifest, response: _Response) -> Any:
    match operation:
        case Operation.REVISE | Operation.RETAIN | Operation.AGGREGATE:
            return _patched(obj, response)
        case Operation.REPLICA:
            requirements = response.replica_requirements
            return {
                "replicas": _given(response.replicas, "replicas", operation),
                "requirements": None if requirements is None else requirements_of(requirements),
            }
        case Operation.COMPONENT:
            return None if response.components is None else components_of(response.components)
        case Operation.DEPENDENCY:
            return dependencies_of([[] if response.dependencies is None else response.dependencies])
        case Operation.STATUS:
            return _given(response.raw_status, "rawStatus", operation)
        case Operation.HEALTH:
            return _given(response.healthy, "healthy", operation)
        case _:
            assert_never(operation)


def _given(value: Any, field: str, operation: Operation) -> Any:
    if value is None:
        raise InterpretError(f"is required for {operation}", field)
    return value


def _patched(obj: Manifest, response: _Response) -> Manifest:
    patch, patch_type = response.patch, response.patch_type
    if not patch and patch_type is None:
        return obj
    if not patch:
        raise InterpretError("is required where response.patchType is set", "patch")
    if patch_type != "JSONPatch":
        given = "is missing" if patch_type is None else f"is {patch_type[:_LONGEST_TEXT]!r}"
        raise InterpretError(f"{given}, expected 'JSONPatch'", "patchType")
    try:
        patched = json_patch(obj, msgspec.json.decode(patch))
    except PatchError as problem:
        raise InterpretError(f"cannot be applied to the object: {problem.message}", "patch") from None
    except (ValueError, RecursionError) as problem:
        raise InterpretError(f"is no JSON Patch in base64: {problem}", "patch") from None
    if type(patched) is not dict or not patched.get("kind") or type(patched["kind"]) is not str:
        raise InterpretError(f"leaves {describe(patched)} without kind, expected the whole object", "patch")
    return patched
