"""Validates manifests of Karmada's kinds without a control plane, by the schemas and rules of the embedded one."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.kube.api import UNREADABLE
from services._rules.admission import KINDS, Context, Denied, default, validate
from services._rules.feature_gates import feature_gates
from services.apiserver.crds.custom_kinds import CustomKind, custom_kinds
from services.apiserver.crds.generate import definitions
from services.apiserver.kinds.kind_model import DecodeError
from services.apiserver.settings import Settings, from_environment
from services.cli.common.printing import as_json, as_yaml
from services.cli.common.running import Failed
from services.cli.objects.interpret import STDIN, files_in
from services.cli.objects.yaml_positions import line_of

_COMPARED: Final = "ResourceInterpreterCustomization"
# The server sets an id of its own.
_ANY_ID: Final = "00000000-0000-0000-0000-000000000000"


class Document(Struct, frozen=True):
    """One object of a file. `line` is its first one, `node` the YAML it was read from, where that is known."""

    file: str
    line: int
    object: Any
    node: Any = None


class Refusal(Struct, frozen=True):
    """One rule that an object breaks; `field` is empty where the rule concerns the object as a whole."""

    file: str
    line: int
    object: str
    field: str
    message: str

    def __str__(self) -> str:
        place = f"{self.field}: " if self.field else ""
        return f"{self.file}:{self.line}: {self.object}: {place}{self.message}"


class Validator:
    """Validates one object after the other; a customization is also compared with those before it."""

    def __init__(self, namespace: str, settings: Settings) -> None:
        self._namespace = namespace
        self._settings = settings
        self._gates = feature_gates(settings.feature_gates)
        self._kinds: dict[tuple[str, str], CustomKind] = {}
        for crd in (*definitions(optional=False), *definitions(optional=True)):
            for kind in custom_kinds(crd):
                self._kinds[kind.resource.api_version, kind.resource.kind] = kind
        self._customizations: list[Manifest] = []
        self.checked = self.skipped = 0

    def refusals(self, document: Document) -> list[Refusal]:
        """What the control plane would refuse of an object; nothing of a kind that is not Karmada's."""
        obj = document.object
        if not isinstance(obj, dict) or not isinstance(obj.get("kind"), str):
            return [_refusal(document, "kind", "Required value: a document is an object with apiVersion and kind")]
        kind = self._kinds.get((str(obj.get("apiVersion")), obj["kind"]))
        if kind is None:
            if obj["kind"] in KINDS and str(obj.get("apiVersion")).partition("/")[0].endswith(".karmada.io"):
                return [_refusal(document, "apiVersion", f"no version of {obj['kind']} has this name")]
            self.skipped += 1
            return []
        self.checked += 1
        found = [_refusal(document, field, message) for field, message in self._problems(kind, obj)]
        if obj["kind"] == _COMPARED:
            self._customizations.append(obj)
        return found

    def _problems(self, kind: CustomKind, given: Manifest) -> Iterator[tuple[str, str]]:
        """Field and message of each problem: unknown fields, then types, then the schema, then the rules."""
        yield from ((path, "unknown field: remove it or correct its name") for path in kind.unknown_fields(given))
        try:
            obj = msgspec.json.decode(msgspec.json.encode(given))
            kind.decode(obj)
        except (DecodeError, *UNREADABLE) as error:
            yield "", str(error)
            return
        kind.prune(obj)
        kind.default(obj)
        namespace = ""
        metadata = obj["metadata"] = obj.get("metadata") or {}
        if kind.resource.namespaced:
            namespace = metadata.setdefault("namespace", self._namespace)
        context = Context(
            namespace=namespace,
            identity=_ANY_ID,
            now=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),  # noqa: TID251 - a command
            existing=self._customizations if kind.resource.kind == _COMPARED else (),
            allow_no_execute_taint_policy=self._settings.no_execute_policies,
            multiple_pod_templates=self._gates["MultiplePodTemplatesScheduling"],
            resource_models=self._gates["CustomizedClusterResourceModeling"],
        )
        decision = default(kind.resource.kind, "CREATE", obj, None, context)
        defaulted = obj if isinstance(decision, Denied) else decision.object
        errors = kind.check_metadata(defaulted) + kind.validate_create(defaulted)
        if errors:
            yield from dict.fromkeys((error.field, error.message()) for error in errors)
            return
        if not isinstance(decision, Denied):
            decision = validate(kind.resource.kind, decision.object, None, context)
        if isinstance(decision, Denied):
            causes = [(cause.field, cause.message()) for cause in decision.causes]
            yield from dict.fromkeys(causes or [("", decision.message)])


def run(paths: Sequence[Path], namespace: str, output: str, *, recursive: bool) -> int:
    """Print what is refused; ends with 1 if anything is. Raises Failed where a file cannot be read."""
    if not paths:
        raise Failed("no file is named: use -f FILE, -f DIRECTORY or -f -")
    try:
        settings = from_environment()
    except (ValueError, OSError) as error:
        raise Failed(str(error)) from None
    validator = Validator(namespace, settings)
    found = [refusal for one in _documents(files_in(paths, recursive)) for refusal in validator.refusals(one)]
    if output:
        refused = msgspec.to_builtins(found)
        facts = {"checked": validator.checked, "skipped": validator.skipped, "refused": refused}
        text = (as_json if output == "json" else as_yaml)(facts)
    else:
        skipped = f", {validator.skipped} of other kinds not checked" if validator.skipped else ""
        summary = f"{validator.checked} objects checked{skipped}, {len(found)} problems"
        text = "".join(f"{line}\n" for line in (*found, summary))
    sys.stdout.write(text)
    return 1 if found else 0


def _documents(paths: Iterable[Path]) -> Iterator[Document]:
    """The objects in files, those of a List one by one."""
    import yaml

    loader_of: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for path in paths:
        name = "<stdin>" if path == STDIN else str(path)
        try:
            loader = loader_of(sys.stdin.read() if path == STDIN else path.read_text(encoding="utf-8"))
            while loader.check_node():
                node = loader.get_node()
                found = loader.construct_document(node)
                items = found.get("items") if isinstance(found, dict) and found.get("kind") == "List" else None
                if not isinstance(items, list):
                    if found is not None:
                        yield Document(name, node.start_mark.line + 1, found, node)
                    continue
                for each, item in zip(items, _items(node, len(items)), strict=True):
                    if each is not None:
                        yield Document(name, item.start_mark.line + 1, each, item)
        except (OSError, UnicodeDecodeError) as problem:
            raise Failed(f"{name} cannot be read: {problem}") from None
        except yaml.YAMLError as problem:
            raise Failed(f"{name} is no YAML: {problem}") from None


def _items(lists: Any, count: int) -> list[Any]:
    """The nodes of the items of a List; its own for each where the items come by a merge key."""
    found: list[Any] = next((value.value for key, value in lists.value if key.value == "items"), [])
    return found if len(found) == count else [lists] * count


def _refusal(document: Document, field: str, message: str) -> Refusal:
    line = document.line if document.node is None or not field else line_of(document.node, field)
    return Refusal(document.file, line, _name_of(document.object), field, message)


def _name_of(obj: Any) -> str:
    """`PropagationPolicy default/web`: how a refusal names its object."""
    if not isinstance(obj, dict):
        return "a document that is no object"
    given = obj.get("metadata")
    metadata = given if isinstance(given, dict) else {}
    parts = [str(metadata[part]) for part in ("namespace", "name") if metadata.get(part)]
    return f"{obj.get('kind') or 'object without kind'} {'/'.join(parts)}".rstrip()
