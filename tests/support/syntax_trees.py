"""Syntax trees of source files, each parsed once for all tests of one process."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file, which is not to be changed."""
    return ast.parse(path.read_text(encoding="utf-8"))
