"""Edits the scripts of a customization as one Lua file: `karmadactl interpret -f FILE --edit`."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.interpreter.scripts.customizations import MEMBERS
from services._rules.interpreter.scripts.lua_syntax import problem as syntax_problem
from services.cli.common.printing import as_json, as_yaml, ending_of
from services.cli.common.running import Failed, complain
from services.cli.objects.interpret import ORDER, STDIN, customizations_in

Editor = Callable[[Path], None]

_EMPTY: Final[Manifest] = {
    "apiVersion": "config.karmada.io/v1alpha1",
    "kind": "ResourceInterpreterCustomization",
    "metadata": {"name": ""},
}
_HEADER: Final = (
    "-- Please edit the scripts below and save. A rule without a script is removed; a file that stays as it is cancels",
    "-- the edit. Where something is wrong the file is opened again and says what, here.",
)
_NAME, _API_VERSION, _KIND, _RULE = "---@name:", "---@apiVersion:", "---@kind:", "---@rule:"
_DOCUMENTS: Final = {
    "Retain": ("Keeps what belongs to the member.", "Retain(desiredObj, observedObj): the object to write"),
    "InterpretReplica": ("Finds replicas and what each requires.", "GetReplicas(obj): a number, requirements or nil"),
    "InterpretComponent": (
        "Finds the components of a workload.",
        "GetComponents(obj): a list of {name, replicas, replicaRequirements}",
    ),
    "ReviseReplica": ("Sets the replicas.", "ReviseReplica(obj, desiredReplica): the object"),
    "InterpretStatus": ("Finds the status to collect.", "ReflectStatus(observedObj): a table"),
    "AggregateStatus": ("Makes one status of those of members.", "AggregateStatus(obj, items): the object"),
    "InterpretHealth": ("Says whether an object does what it should.", "InterpretHealth(observedObj): true or false"),
    "InterpretDependency": (
        "Finds what an object needs beside it.",
        "GetDependencies(obj): a list of {apiVersion, kind, namespace, name or labelSelector}",
    ),
}
_DOCUMENTATION: Final = frozenset(f"-- {line}" for lines in _DOCUMENTS.values() for line in lines)
_MEMBER_OF: Final = {operation: member for member, operation in MEMBERS.items()}


def edit(path: Path, *, documented: bool, editor: Editor | None = None) -> str:
    """Let a person edit the customization in a file and write it back; what to print, empty where nothing changed.

    A file that is missing or empty begins a new one. Raises Failed where the file holds several objects or something
    else, and where the person leaves a mistake as it is; what was edited is kept then, and its place is named.
    """
    if path == STDIN or path.is_dir():
        raise Failed("--edit needs one file with -f")
    source = path.read_text(encoding="utf-8") if path.exists() else ""
    original = _only(path) if source.strip() else _EMPTY
    descriptor, name = tempfile.mkstemp(prefix="karmadactl-edit-", suffix=".lua")
    os.close(descriptor)
    place = Path(name)
    text, problems = as_lua(original, documented=documented), list[str]()
    while True:
        place.write_text("\n".join((*_HEADER, *(f"-- {problem}" for problem in problems), text)), encoding="utf-8")
        try:
            (editor or _launched)(place)
        except Failed:
            if not problems:
                place.unlink()
            raise
        before, text = text, _without_header(place.read_text(encoding="utf-8"))
        if problems and text == before:
            raise Failed(f"edit cancelled, nothing valid was saved; what you wrote is in {place}")
        edited, problems = from_lua(original, text)
        if not problems:
            break
    place.unlink()
    if edited == original:
        complain("Edit cancelled, no changes made.")
        return ""
    path.write_text(as_json(edited) if source.lstrip().startswith("{") else as_yaml(edited), encoding="utf-8")
    return f"{ending_of(edited)} edited\n"


def as_lua(manifest: Manifest, *, documented: bool) -> str:
    """A customization as one Lua text, the rules in their order, with what each is for where that is wanted."""
    spec = manifest.get("spec") or {}
    target, rules = spec.get("target") or {}, spec.get("customizations") or {}
    lines = [
        f"{_NAME} {(manifest.get('metadata') or {}).get('name') or ''}",
        f"{_API_VERSION} {target.get('apiVersion') or ''}",
        f"{_KIND} {target.get('kind') or ''}",
    ]
    for operation in ORDER:
        lines.append(f"{_RULE} {operation}")
        if documented:
            lines += [f"-- {line}" for line in _DOCUMENTS[operation]]
        script = (rules.get(_MEMBER_OF[operation]) or {}).get("luaScript") or ""
        lines += script.removesuffix("\n").split("\n") if script else []
    return "\n".join((*lines, ""))


def from_lua(original: Manifest, text: str) -> tuple[Manifest, list[str]]:
    """The customization that a Lua text says, its other fields as they were, and what is wrong with it."""
    said = {_NAME: "", _API_VERSION: "", _KIND: ""}
    scripts: dict[str, list[str]] = {}
    current: list[str] | None = None
    problems: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        plain = line.strip()
        mark = next((mark for mark in (*said, _RULE) if plain.startswith(mark)), None)
        value = plain.removeprefix(mark).strip() if mark else ""
        if mark == _RULE:
            if value not in _MEMBER_OF:
                problems.append(f"line {number}: rule {value!r} is none of {', '.join(ORDER)}")
            current = scripts.setdefault(value, [])
        elif mark:
            said[mark] = value
        elif current is not None:
            if plain not in _DOCUMENTATION:
                current.append(line)
        elif plain and not plain.startswith("--"):
            problems.append(f"line {number}: a script has to stand below the line {_RULE} of its rule")
    problems += [f"{mark} is empty" for mark, value in said.items() if not value]
    spec = original.get("spec") or {}
    before = spec.get("customizations") or {}
    rules: dict[str, Any] = {}
    for operation in ORDER:
        script = "\n".join(scripts.get(operation, ())).strip("\n")
        if not script.strip():
            continue
        wrong = syntax_problem(script)
        if wrong is not None:
            problems.append(f"{operation}: {wrong}")
        member = _MEMBER_OF[operation]
        old = (before.get(member) or {}).get("luaScript") or ""
        # A script that was not touched stays as it is written, to the last line end.
        rules[member] = {"luaScript": old if old.strip("\n") == script else f"{script}\n"}
    target = {"apiVersion": said[_API_VERSION], "kind": said[_KIND]}
    edited = {
        **original,
        "metadata": {**(original.get("metadata") or {}), "name": said[_NAME]},
        "spec": {**spec, "target": target, "customizations": rules},
    }
    return edited, problems


def _only(path: Path) -> Manifest:
    found = customizations_in([path])
    if len(found) != 1:
        raise Failed(f"{path} holds {len(found)} customizations; only a file with one can be edited")
    return found[0][1]


def _without_header(text: str) -> str:
    lines = text.split("\n")
    first = next((index for index, line in enumerate(lines) if line.startswith("---@")), 0)
    return "\n".join(lines[first:])


def _launched(path: Path) -> None:
    command: Sequence[str] = shlex.split(os.environ.get("KUBE_EDITOR") or os.environ.get("EDITOR") or "vi")
    try:
        subprocess.run([*command, str(path)], check=True)
    except (OSError, subprocess.CalledProcessError) as problem:
        raise Failed(f"the editor {command[0]!r} failed ({problem}); set KUBE_EDITOR or EDITOR") from None
