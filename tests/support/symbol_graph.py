"""Which top-level symbols of the product its entry points reach: a graph of the names in the source, without imports.

A symbol is a function, class or constant of a module; a method belongs to its class. A name reaches the symbol that it
resolves to, through imports and re-exports; so does `module.name`. A module that is imported runs its statements and
offers what a decorator registers (`@app.command()`). A string that is the name of a module reaches it and its functions
`main` and `run`: it is imported late, or run as `python -m`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.syntax_trees import tree_of

Symbol = tuple[str, str]
"""Module and name; an empty name is the statements that run when the module is imported."""
_STATEMENTS = ""
_OUTSIDE = "<outside>"


@dataclass
class Module:
    """What one module defines, and what it imports under which name."""

    name: str
    package: str
    symbols: dict[str, list[ast.AST]] = field(default_factory=dict)
    """The nodes of each symbol; under the empty name what runs at import."""
    imports: dict[str, Symbol] = field(default_factory=dict)
    """Imported names: (module, name), with an empty name where a module is imported."""
    registered: list[str] = field(default_factory=list)
    """Symbols that a decorator registers at import."""


class SymbolGraph:
    """The symbols of some packages below a root, and what each of them reaches."""

    def __init__(self, root: Path, packages: Iterable[str]) -> None:
        self.modules: dict[str, Module] = {}
        self._known: dict[Symbol, list[Symbol]] = {}
        for package in packages:
            for path in sorted((root / package).rglob("*.py")):
                parts = path.relative_to(root).with_suffix("").parts
                name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                parent = name if parts[-1] == "__init__" else ".".join(parts[:-1])
                self.modules[name] = read_module(name, parent, tree_of(path))

    def symbols(self) -> set[Symbol]:
        """All symbols that the modules define, without names such as `__all__`, which Python itself reads."""
        return {
            (module.name, name)
            for module in self.modules.values()
            for name in module.symbols
            if name and not name.startswith("__")
        }

    def reached_from(self, roots: Iterable[Symbol]) -> set[Symbol]:
        """The symbols that these reach, themselves included."""
        found: set[Symbol] = set()
        waiting = [symbol for root in roots for symbol in self._resolved(*root)]
        while waiting:
            symbol = waiting.pop()
            if symbol not in found:
                found.add(symbol)
                if symbol not in self._known:
                    self._known[symbol] = list(self._edges(*symbol))
                waiting.extend(self._known[symbol])
        return found

    def reached_by(self, source: str) -> set[Symbol]:
        """The symbols that the code of a file outside the packages reaches."""
        file = read_module(_OUTSIDE, _OUTSIDE, ast.parse(source))
        found: set[Symbol] = set()
        for nodes in file.symbols.values():
            for node in nodes:
                for module, name in references(node, file):
                    source_module, original = file.imports.get(name.partition(".")[0], (module, ""))
                    rest = name.partition(".")[2]
                    found.add((source_module, ".".join(part for part in (original, rest) if part)))
        return self.reached_from(found)

    def _edges(self, module_name: str, name: str) -> Iterator[Symbol]:
        module = self.modules[module_name]
        if name == _STATEMENTS:
            yield from ((module_name, each) for each in module.registered)
        else:
            yield module_name, _STATEMENTS
        for node in module.symbols.get(name, ()):
            for reference in references(node, module):
                yield from self._resolved(*reference)

    def _resolved(self, module_name: str, name: str) -> Iterator[Symbol]:
        """The symbol behind a name of a module, and the modules that the import of it runs."""
        module = self.modules.get(module_name)
        if module is None:
            return
        yield module_name, _STATEMENTS
        first, _, rest = name.partition(".")
        if first in module.symbols and first:
            yield module_name, first
        elif first in module.imports:
            source, original = module.imports[first]
            if original and f"{source}.{original}" in self.modules:
                source, original = f"{source}.{original}", ""
            yield from self._resolved(source, ".".join(part for part in (original, rest) if part))
        elif f"{module_name}.{first}" in self.modules:
            yield from self._resolved(f"{module_name}.{first}", rest)


def read_module(name: str, package: str, tree: ast.Module) -> Module:
    """What a module defines."""
    module = Module(name, package)
    statements = module.symbols.setdefault(_STATEMENTS, [])
    decorated: list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef] = []
    for node in _statements(tree.body):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                module.symbols.setdefault(node.name, []).append(node)
                decorated.append(node)
            case ast.Import() | ast.ImportFrom():
                module.imports |= dict(imported(node, package))
                statements.append(node)
            case ast.Assign() | ast.AnnAssign() if names := list(_assigned(node)):
                for target in names:
                    module.symbols.setdefault(target, []).append(node)
            case _:
                statements.append(node)
    module.registered = [
        node.name for node in decorated if any(_registers(each, module.imports) for each in node.decorator_list)
    ]
    return module


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Top-level statements, with those below a top-level condition."""
    for node in body:
        match node:
            case ast.If(body=inner, orelse=other):
                if not _is_main(node.test):
                    yield from _statements([*inner, *other])
            case ast.Try(body=inner, handlers=handlers, orelse=other):
                yield from _statements([*inner, *(each for handler in handlers for each in handler.body), *other])
            case _:
                yield node


def _is_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _registers(decorator: ast.expr, imports: Mapping[str, Symbol]) -> bool:
    """Whether a decorator registers what it decorates: `@app.command()`, but not `@functools.lru_cache()`."""
    match decorator:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
            return imports.get(name, ("", name))[1] != ""
        case _:
            return False


def _assigned(node: ast.Assign | ast.AnnAssign) -> Iterator[str]:
    match node:
        case ast.Assign(targets=targets):
            for target in targets:
                for each in target.elts if isinstance(target, ast.Tuple) else (target,):
                    if isinstance(each, ast.Name):
                        yield each.id
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case _:
            pass


def imported(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[tuple[str, Symbol]]:
    """The names that an import binds."""
    if isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name, (node.module or package, alias.name)
    else:
        for alias in node.names:
            yield (
                (alias.asname, (alias.name, ""))
                if alias.asname
                else (
                    alias.name.partition(".")[0],
                    (alias.name.partition(".")[0], ""),
                )
            )


def references(node: ast.AST, module: Module) -> Iterator[Symbol]:
    """What a definition refers to, as names of modules."""
    visitor = _References(module)
    visitor.visit(node)
    yield from visitor.found


class _References(ast.NodeVisitor):
    """Collects the names of other symbols below a node; names of parameters and local variables are none."""

    def __init__(self, module: Module) -> None:
        self.found: list[Symbol] = []
        self._module = module
        self._scopes: list[dict[str, Symbol | None]] = []

    def visit_Name(self, node: ast.Name) -> None:
        self._name(node.id, "")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        parts = [node.attr]
        value = node.value
        while isinstance(value, ast.Attribute):
            parts.append(value.attr)
            value = value.value
        if isinstance(value, ast.Name):
            self._name(value.id, ".".join(reversed(parts)))
        else:
            self.visit(value)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and node.value.startswith("services."):
            self.found += [(node.value, ""), (node.value, "main"), (node.value, "run")]

    def visit_Import(self, node: ast.Import) -> None:
        self._import(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self._import(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node)

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._comprehension(node)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        self._scopes.append(dict.fromkeys(_locals(each.target for each in node.generators)))
        self.generic_visit(node)
        self._scopes.pop()

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        if not isinstance(node, ast.Lambda):
            for decorator in node.decorator_list:
                self.visit(decorator)
            if node.returns is not None:
                self._annotation(node.returns)
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
        for argument in every:
            if argument.annotation is not None:
                self._annotation(argument.annotation)
        for default in [*arguments.defaults, *arguments.kw_defaults]:
            if default is not None:
                self.visit(default)
        body = node.body if isinstance(node.body, list) else [node.body]
        self._scopes.append(dict.fromkeys(argument.arg for argument in every) | dict.fromkeys(_locals(body)))
        for statement in body:
            self.visit(statement)
        self._scopes.pop()

    def _annotation(self, node: ast.expr) -> None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = ast.parse(node.value, mode="eval").body
        self.visit(node)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for name, symbol in imported(node, self._module.package):
            # A module that is imported runs; the symbol itself is reached where its name is used.
            self.found.append((symbol[0], ""))
            if isinstance(node, ast.ImportFrom):
                self.found.append((f"{symbol[0]}.{symbol[1]}", ""))
            if self._scopes:
                self._scopes[-1][name] = symbol

    def _name(self, name: str, rest: str) -> None:
        for scope in reversed(self._scopes):
            if name in scope:
                symbol = scope[name]
                if symbol is not None:
                    self.found.append((symbol[0], ".".join(part for part in (symbol[1], rest) if part)))
                return
        if name in self._module.symbols or name in self._module.imports:
            self.found.append((self._module.name, f"{name}.{rest}" if rest else name))


def _locals(body: Iterable[ast.AST]) -> Iterator[str]:
    """Names that a function binds itself, without those of functions inside it."""
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                pass
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.ExceptHandler(name=str(name), body=inner):
                yield name
                waiting.extend(inner)
            case _:
                waiting.extend(ast.iter_child_nodes(node))
