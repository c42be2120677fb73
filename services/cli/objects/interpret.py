"""Checks interpreter scripts and runs one operation of them offline: `karmadactl interpret`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from schemas.manifest import Manifest
from services._kit.interpretation.lua.machine import LuaMachine
from services._kit.interpretation.lua.pool import LuaPool
from services._kit.interpretation.lua.process import WorkerUnavailable
from services._rules.interpreter import InterpretError, Operation
from services._rules.interpreter.configuration import customization_problem
from services._rules.interpreter.scripts.customizations import MEMBERS, Customizations
from services._rules.interpreter.scripts.lua_syntax import problem as syntax_problem
from services._rules.interpreter.scripts.result_types import dependencies_of
from services.cli.common.printing import as_json, as_yaml
from services.cli.common.running import Failed, complain
from services.cli.objects.object_options import Inputs

_KIND: Final = "ResourceInterpreterCustomization"
ORDER: Final = (
    Operation.RETAIN,
    Operation.REPLICA,
    Operation.COMPONENT,
    Operation.REVISE,
    Operation.STATUS,
    Operation.AGGREGATE,
    Operation.HEALTH,
    Operation.DEPENDENCY,
)
"""The order rules are listed in, by operation."""
# What each operation calls its result.
_NAMES: Final = {
    Operation.RETAIN: "retained",
    Operation.COMPONENT: "components",
    Operation.REVISE: "revised",
    Operation.STATUS: "status",
    Operation.AGGREGATE: "aggregatedStatus",
    Operation.HEALTH: "healthy",
    Operation.DEPENDENCY: "dependencies",
}


STDIN: Final = Path("-")
"""In place of a file: standard input, which can be read once."""


def files_in(paths: Sequence[Path], recursive: bool) -> list[Path]:
    """The files that -f names: of a directory those that hold YAML or JSON; raises Failed where there is none."""
    found: list[Path] = []
    for path in paths:
        if path == STDIN:
            found.append(path)
        elif path.is_dir():
            inside = path.rglob("*") if recursive else path.iterdir()
            found += sorted(entry for entry in inside if entry.suffix in (".yaml", ".yml", ".json"))
        elif path.is_file():
            found.append(path)
        else:
            raise Failed(f"{path} does not exist")
    return found


def documents(path: Path) -> list[Any]:
    """The objects in a file; raises Failed where it cannot be read or one of them is no object."""
    import yaml

    try:
        text = sys.stdin.read() if path == STDIN else path.read_text(encoding="utf-8")
        found = list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except (OSError, UnicodeDecodeError) as problem:
        raise Failed(f"{path} cannot be read: {problem}") from None
    except yaml.YAMLError as problem:
        raise Failed(f"{path} is no YAML: {problem}") from None
    objects = [document for document in found if document is not None]
    for number, document in enumerate(objects, 1):
        if not isinstance(document, dict):
            raise Failed(f"{path}, document {number}: is no object")
    return objects


def customizations_in(paths: Sequence[Path]) -> list[tuple[Path, Manifest]]:
    """The customizations in files, with the file of each; raises Failed where one holds something else."""
    found: list[tuple[Path, Manifest]] = []
    for path in paths:
        for manifest in documents(path):
            if manifest.get("kind") != _KIND:
                raise Failed(f"{path} holds a {manifest.get('kind')}, expected {_KIND}")
            wrong = customization_problem(manifest)
            if wrong is not None:
                raise Failed(f"{path}: {wrong}")
            found.append((path, manifest))
    if not found:
        raise Failed(f"-f names no {_KIND}")
    return found


def check(found: Sequence[tuple[Path, Manifest]]) -> tuple[str, bool]:
    """Which scripts of each customization compile, as text, and whether all do."""
    lines: list[str] = []
    sound = True
    members = {operation: member for member, operation in MEMBERS.items()}
    machine = LuaMachine()
    for path, manifest in found:
        spec = manifest.get("spec") or {}
        target, rules = spec.get("target") or {}, spec.get("customizations") or {}
        lines += ["-" * 35, f"SOURCE: {path}"]
        missing = [f"target.{name} is not set" for name in ("kind", "apiVersion") if not target.get(name)]
        if missing:
            sound = False
            lines.append(missing[0])
            continue
        lines += [f"TARGET: {target['apiVersion']} {target['kind']}", "RULERS:"]
        for operation in ORDER:
            script = (rules.get(members[operation]) or {}).get("luaScript")
            # What the syntax allows and this machine does not, such as goto, is no script either.
            wrong = syntax_problem(script) or machine.problem(script) if script else None
            sound = sound and wrong is None
            verdict = "UNSET" if not script else "PASS" if wrong is None else f"ERROR: {wrong}"
            lines.append(f"    {operation + ':':<24}{verdict}")
    return "\n".join(lines), sound


def operation_named(name: str) -> Operation:
    """The operation of a name in any case; raises Failed."""
    for operation in ORDER:
        if operation.lower() == name.lower():
            return operation
    raise Failed(f"--operation {name!r} is none of {', '.join(ORDER)}; or use --check")


def arguments(operation: Operation, inputs: Inputs) -> list[Any]:
    """The arguments of an operation from files; raises Failed where an option is missing."""
    if [inputs.desired, inputs.observed, inputs.status].count(STDIN) > 1:
        raise Failed("standard input (-) can be read for one option only")
    if operation == Operation.RETAIN:
        return [_object(inputs.desired, "--desired-file"), _object(inputs.observed, "--observed-file")]
    if inputs.desired is not None and inputs.observed is not None:
        raise Failed(f"{operation} takes one object: give --desired-file or --observed-file, not both")
    obj = _object(inputs.desired or inputs.observed, "--observed-file (or --desired-file)")
    if operation == Operation.AGGREGATE:
        return [obj, documents(_given(inputs.status, "--status-file", operation))]
    if operation != Operation.REVISE:
        return [obj]
    if inputs.replicas is None:
        raise Failed("ReviseReplica needs --desired-replica")
    return [obj, inputs.replicas]


async def execute(manifests: Sequence[Manifest], operation: Operation, given: Sequence[Any], output: str) -> str:
    """The results of an operation as text; what goes wrong in a script is written to standard error.

    Raises Failed where no customization defines the operation for the kind of the object.
    """
    target = str(given[0].get("apiVersion")), str(given[0].get("kind"))
    scripts = Customizations(manifests).scripts(*target, operation)
    if not scripts:
        raise Failed(f"no customization defines {operation} for {' '.join(target)}; name files that do with -f")
    pool = LuaPool(1)
    try:
        results = [await pool.evaluate(operation, script, given) for script in scripts]
    except InterpretError as problem:
        complain(f"{operation}: {problem}")
        return ""
    except WorkerUnavailable as problem:
        raise Failed(str(problem)) from None
    finally:
        await pool.close()
    result = dependencies_of(results) if operation == Operation.DEPENDENCY else results[0]
    named = _named(operation, result)
    write = WRITERS[output]
    return "".join(
        f"---\n# [{index}/{len(named)}] {name}:\n{write(value)}" for index, (name, value) in enumerate(named, 1)
    )


def _named(operation: Operation, result: Any) -> list[tuple[str, Any]]:
    if operation == Operation.REPLICA:
        return [("replica", result["replicas"]), ("requires", result["requirements"])]
    return [(_NAMES[operation], result)]


def _yaml(value: Any) -> str:
    # A scalar alone ends with a mark of its own.
    return as_yaml(value).removesuffix("...\n")


WRITERS: Final[dict[str, Callable[[Any], str]]] = {"yaml": _yaml, "json": as_json}


def _given(path: Path | None, option: str, operation: Operation) -> Path:
    if path is None:
        raise Failed(f"{operation} needs {option}")
    return path


def _object(path: Path | None, option: str) -> Manifest:
    if path is None:
        raise Failed(f"this operation needs {option}")
    found = documents(path)
    if len(found) != 1:
        raise Failed(f"{option} {path} holds {len(found)} objects, expected one")
    obj: Manifest = found[0]
    return obj
