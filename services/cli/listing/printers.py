"""Prints documents, one per cluster, in the form that -o names: JSON, YAML, names, templates, columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.kubernetes.jsonpath import JSONPathError
from services.cli.common.printing import as_json, as_yaml, ending_of
from services.cli.common.running import Failed
from services.cli.listing import custom_columns
from services.cli.listing.jsonpath_template import Template, compiled
from services.cli.listing.kyaml import as_kyaml
from services.cli.listing.listing_options import Query

Printer = Callable[[Sequence[Manifest]], str]
"""From documents to text."""
_FILES: Final = {
    "jsonpath-file": "jsonpath",
    "go-template-file": "go-template",
    "templatefile": "go-template",
    "custom-columns-file": "custom-columns-file",
}


def printer_of(query: Query) -> Printer:
    """The printer of an output that is no table; raises Failed for templates and columns that are none."""
    form, equals, text = query.output.partition("=")
    if not equals and form not in ("name", "json", "yaml", "kyaml"):
        text = query.template
        if not text:
            raise Failed(f"-o {form} needs a text: -o {form}=… or --template=…")
    if form in _FILES:
        form, name, text = _FILES[form], text, _read(text, form)
        if form == "custom-columns-file":
            return _columns(custom_columns.of_file(text, name), query)
    match form:
        case "name":
            return lambda documents: "".join(f"{ending_of(item)}\n" for item in items_of(documents))
        case "yaml":
            return lambda documents: "---\n".join(map(as_yaml, documents))
        case "kyaml":
            return lambda documents: "".join(map(as_kyaml, documents))
        case "json":
            return lambda documents: "".join(map(as_json, documents))
        case "jsonpath":
            return _jsonpath(text)
        case "jsonpath-as-json":
            return _jsonpath_as_json(text)
        case "custom-columns":
            return _columns(custom_columns.of_text(text), query)
        case _:
            return _go_template(text)


def items_of(documents: Sequence[Manifest]) -> list[Manifest]:
    """The objects of documents, lists taken apart."""
    return [item for document in documents for item in document.get("items", (document,))]


def _jsonpath(text: str) -> Printer:
    try:
        template = Template(text if "{" in text else f"{{{text}}}")
    except JSONPathError as error:
        raise Failed(f"error parsing jsonpath {text}: {error}") from None
    return lambda documents: "".join(map(template.filled, documents))


def _jsonpath_as_json(text: str) -> Printer:
    try:
        find = compiled(text)
    except JSONPathError as error:
        raise Failed(f"error parsing jsonpath {text}: {error}") from None
    return lambda documents: "".join(as_json(find(document)) for document in documents)


def _columns(columns: custom_columns.Columns, query: Query) -> Printer:
    return lambda documents: columns.table(items_of(documents), no_headers=query.no_headers)


def _go_template(text: str) -> Printer:
    def printed(documents: Sequence[Any]) -> str:
        from services.cli.kubectl.go_templates import fill_templates

        return fill_templates(text, documents)

    return printed


def _read(name: str, form: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8").rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"-o {form}: {name}: {getattr(error, 'strerror', '') or error}") from None
