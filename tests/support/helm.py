"""Renders the charts as users do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml

CHARTS: Final = Path(__file__).parents[2] / "k8s/charts"
# It lies beside the interpreter, whether or not that directory is searched.
HELM: Final = Path(sys.executable).with_name("helm")
Manifest = dict[str, Any]
LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def run(*arguments: str, values: Manifest | None = None) -> tuple[int, str, str]:
    """Exit code, output and errors of helm, with values from its standard input."""
    if not HELM.exists():
        pytest.skip("helm has no package for this platform")
    given = () if values is None else ("--values", "-")
    done = subprocess.run(
        [HELM, *arguments, *given],
        input=msgspec.json.encode(values).decode() if values is not None else None,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def template(chart: str, namespace: str, values: Manifest) -> list[Manifest]:
    """The objects of a chart with these values."""
    code, out, errors = run("template", "one", str(CHARTS / chart), "--namespace", namespace, values=values)
    assert code == 0, errors
    return [each for each in yaml.load_all(out, Loader=LOADER) if each]


def by_place(objects: list[Manifest]) -> dict[tuple[str, str], Manifest]:
    """Objects by kind and name, each once."""
    found = {(each["kind"], each["metadata"]["name"]): each for each in objects}
    assert len(found) == len(objects)
    return found
