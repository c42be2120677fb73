"""Interpreter scripts bundled with the product for kinds of other projects.

One file per kind, `thirdparty/<group>/<version>/<Kind>.yaml`, is a ResourceInterpreterCustomization as a user could
write it (docs/sources.md#interpreters). Each kind is read on its first use.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import Operation
from services._rules.interpreter.scripts.customizations import Customizations

Target: TypeAlias = tuple[str, str]
"""apiVersion and kind."""

_ROOT: Final = Path(__file__).with_name("thirdparty")


@cache
def files() -> dict[Target, Path]:
    """The file of each kind, in order of group, version and kind."""
    return {(f"{path.parts[-3]}/{path.parts[-2]}", path.stem): path for path in sorted(_ROOT.glob("*/*/*.yaml"))}


def text(api_version: str, kind: str) -> str | None:
    """The customization of a kind as it is written in its file, None where the product brings none."""
    path = files().get((api_version, kind))
    return path.read_text(encoding="utf-8") if path is not None else None


def manifest(api_version: str, kind: str) -> Manifest | None:
    """The customization of a kind, None where the product brings none."""
    written = text(api_version, kind)
    if written is None:
        return None
    import yaml

    found: Any = yaml.load(written, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    customization: Manifest = found
    return customization


class Shipped(Customizations):
    """The scripts of all kinds that the product knows so; a kind's file is read with the first question about it."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[Target, Customizations] = {}

    def scripts(self, api_version: str, kind: str, operation: Operation) -> tuple[str, ...]:
        """The scripts to run, in order; empty where the product brings none."""
        return self._of(api_version, kind).scripts(api_version, kind, operation)

    def hook_enabled(self, api_version: str, kind: str, operation: Operation) -> bool:
        """Whether a script answers an operation for a kind."""
        return self._of(api_version, kind).hook_enabled(api_version, kind, operation)

    def __len__(self) -> int:
        return len(files())

    def _of(self, api_version: str, kind: str) -> Customizations:
        target = (api_version, kind)
        if target not in files():
            return _NOTHING
        known = self._kinds.get(target)
        if known is None:
            found = manifest(api_version, kind)
            known = self._kinds[target] = Customizations([found] if found is not None else [])
        return known


_NOTHING: Final = Customizations()
