"""Reads command-line flags of a service: each setting is one, spelled as Karmada spells its own (`--feature-gates`)."""

from __future__ import annotations

import argparse
import ast
import inspect
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from services._kit.base.settings import PREFIX, Settings

_NO_FLAGS: Final = frozenset({"nats_password"})
"""Excluded from flags: command lines are visible in process lists."""


def with_flags(
    kind: type[Settings], arguments: Sequence[str], module: str, environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment overridden by the flags; `--help` prints every setting and ends the process.

    A flag that does not exist ends the process with code 2.
    """
    values = dict(os.environ if environment is None else environment)
    if not arguments:
        return values
    for name, text in vars(_parser(kind, module).parse_args(list(arguments))).items():
        values[PREFIX + name.upper()] = text
    return values


def package_of(kind: type[Settings]) -> str:
    """Package of the service that a class of settings belongs to: `services.failover`."""
    return kind.__module__.rpartition(".")[0]


def _parser(kind: type[Settings], module: str) -> argparse.ArgumentParser:
    package = sys.modules.get(module)
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}",
        usage="%(prog)s [--help] [--flag VALUE …]",
        description=(package.__doc__ if package is not None else "") or "",
        epilog=f"Each flag can be given as a variable, too: --log-level debug is {PREFIX}LOG_LEVEL=debug.",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    described = _descriptions(kind)
    for field in msgspec.structs.fields(kind):
        if field.name in _NO_FLAGS:
            continue
        # As with Karmada's own flags, naming a switch turns it on.
        switch: dict[str, Any] = {"nargs": "?", "const": "true"} if field.type is bool else {}
        words = [part for part in (described.get(field.name, ""), _default(field)) if part]
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            default=argparse.SUPPRESS,
            metavar=_metavar(field.type),
            help=" ".join(words).replace("%", "%%") or None,
            **switch,
        )
    return parser


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "(required)"
    if field.default in ("", (), None, msgspec.NODEFAULT):
        return ""
    shown = str(field.default).lower() if field.type is bool else str(field.default)
    return f"(default {shown})"


def _metavar(kind: Any) -> str:
    if kind is bool:
        return "true|false"
    name = getattr(kind, "__name__", "")
    return {"str": "TEXT", "int": "NUMBER", "float": "NUMBER|TIME", "tuple": "TEXT,…"}.get(name, "VALUE")


def _descriptions(kind: type[Settings]) -> dict[str, str]:
    """What stands under each field in the source of its class; those of a subclass win."""
    found: dict[str, str] = {}
    for owner in reversed(kind.__mro__):
        if not issubclass(owner, Settings):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, text in zip(body.body, body.body[1:], strict=False):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                    found[name] = " ".join(words.split())
                case _:
                    continue
    return found
