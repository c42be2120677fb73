"""Shows the interpreter scripts that come with the product: `karmadactl interpret --list-shipped`, `--show`."""

from __future__ import annotations

from pathlib import Path

from schemas.manifest import Manifest
from services._rules.interpreter.scripts.bundled import Target, files, manifest, text
from services._rules.interpreter.scripts.customizations import MEMBERS
from services.cli.common.printing import table
from services.cli.common.running import Failed


def listing() -> str:
    """The kinds with scripts as a table, with the operations of each in the order of their names."""
    rows = []
    for api_version, kind in files():
        found = manifest(api_version, kind) or {}
        rules = found["spec"]["customizations"]
        rows.append((api_version, kind, ",".join(sorted(MEMBERS[member] for member in rules))))
    return table(("apiVersion", "kind", "operations"), rows)


def written(name: str) -> str:
    """The customizations of a kind as they are written; raises Failed where no kind has this name.

    A name is `Kind`, `Kind.group` or `group/version/Kind`, in any case.
    """
    wanted = name.lower()
    matching = [target for target in files() if wanted in _names(target)]
    if not matching:
        raise Failed(f"no scripts for {name!r} come with this product; --list-shipped names the kinds that have some")
    return "---\n".join(text(*target) or "" for target in matching)


def customization_of(obj: Manifest) -> Manifest:
    """The customization for an object; raises Failed where its kind has none."""
    api_version, kind = str(obj.get("apiVersion")), str(obj.get("kind"))
    found = manifest(api_version, kind)
    if found is None:
        raise Failed(f"no scripts for {api_version} {kind} come with this product; name files with -f")
    return found


def every() -> list[tuple[Path, Manifest]]:
    """All customizations, with the file of each."""
    return [(path, manifest(*target) or {}) for target, path in files().items()]


def _names(target: Target) -> tuple[str, ...]:
    api_version, kind = target[0].lower(), target[1].lower()
    return kind, f"{kind}.{api_version.split('/')[0]}", f"{api_version}/{kind}"
