"""Reading request bodies: JSON and YAML by media type, with errors worded as clients know them."""

import math
from collections.abc import Callable
from typing import Any

import msgspec

from services._rules.kubernetes.document_bounds import (
    DEEPEST,
    OutOfBounds,
    check_depth,
    check_values,
    is_deeper,
    may_be_deep,
    too_deep,
)
from services._rules.kubernetes.yaml_scalars import whole_of
from services.apiserver.core import status_errors as status
from services.apiserver.core.status_errors import ApiError

JSON, YAML = "application/json", "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_ACCEPTED = [JSON, YAML, PROTOBUF]
SLOW_BYTES = 8 << 10
"""Texts of this size in YAML or protobuf are turned into others by a process of their own: that takes milliseconds."""
GO_ERROR = "couldn't get version/kind; json parse error: "
_decode = msgspec.json.Decoder().decode


def _yaml_number(text: str) -> float | int:
    """A number as YAML's readers take it: whole ones without a fraction."""
    value = float(text)
    if math.isinf(value):
        raise ValueError("beyond all numbers")
    whole = whole_of(value)
    return value if whole is None else whole


_decode_of_yaml = msgspec.json.Decoder(float_hook=_yaml_number).decode


def media_type(header: str | None) -> str:
    """The media type without parameters, lower case; `?` for a header that names none."""
    if header is None or not header.strip():
        return ""
    return header.partition(";")[0].strip().lower() or "?"


def bounded(raw: bytes, decode: Callable[[bytes], Any] = _decode) -> Any:
    """JSON within the bounds of documents; raises DecodeError, UnicodeDecodeError, or ApiError for one beyond them."""
    try:
        check_values(raw)
        found = decode(raw)
        if may_be_deep(raw):
            check_depth(found)
    except OutOfBounds as e:
        raise out_of_bounds(e) from None
    except RecursionError:
        raise out_of_bounds(too_deep()) from None
    return found


def out_of_bounds(error: OutOfBounds) -> ApiError:
    """The refusal of a document that no part of the server should work on."""
    if error.deep:
        return status.bad_request(str(error))
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {error}")


def is_json(raw: bytes) -> bool:
    """Whether a text is JSON within the bounds of documents; only objects are looked at."""
    if raw[:1] != b"{":
        return False
    try:
        check_values(raw)
        msgspec.json.decode(raw, type=msgspec.Raw)
    except (msgspec.DecodeError, OutOfBounds, RecursionError):
        return False
    return True


def refuse_deep(value: Any) -> None:
    """Raise 400 for what a patch nested deeper than a document may be."""
    if is_deeper(value):
        raise out_of_bounds(too_deep())


def decode_json(raw: bytes) -> Any:
    """JSON of a body; raises 400, or 413 for too many values."""
    try:
        return bounded(raw)
    except msgspec.DecodeError as e:
        raise status.bad_request(f"{GO_ERROR}{go_json_error(raw, e)}") from e
    except UnicodeDecodeError as e:
        raise status.bad_request(f"{GO_ERROR}the body is not UTF-8") from e


def decode_yaml(raw: bytes) -> Any:
    """YAML of a body (one document, JSON types only); raises 400, or 413 for too many values."""
    if raw[:1] == b"{":
        # Most of what is sent as YAML is JSON, which is read a hundred times as fast.
        try:
            return bounded(raw, _decode_of_yaml)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
    import yaml

    from services._rules.kubernetes.yaml_reading import YamlReadingError, parse

    try:
        return parse(raw.decode(), DEEPEST)
    except yaml.YAMLError as e:
        raise status.bad_request(f"error decoding YAML: error converting YAML to JSON: {_yaml_error(e)}") from e
    except (YamlReadingError, UnicodeDecodeError) as e:
        raise status.bad_request(f"error decoding YAML: error converting YAML to JSON: yaml: {e}") from e


def decode_body(raw: bytes, header: str | None, schema_name: str = "") -> tuple[Any, bytes]:
    """A body of a create or update request and its JSON text; raises 400, 413 or 415.

    `schema_name` is the OpenAPI name of the type that is expected; with it protobuf bodies can be read too.
    """
    media = media_type(header)
    if media in ("", JSON):
        return decode_json(raw), raw
    if media == YAML:
        text = msgspec.json.encode(decode_yaml(raw), order="sorted")
        # Read again: what aliases stand for is one value each, which later steps change in place.
        return _decode(text), text
    if media == PROTOBUF and schema_name:
        body = decode_protobuf(raw, schema_name)
        return body, msgspec.json.encode(body)
    raise status.unsupported_media(_ACCEPTED)


def decode_protobuf(raw: bytes, schema_name: str) -> Any:
    """A body in Kubernetes' protobuf encoding; raises 400 or 413, or 415 for types without a field table."""
    from services.apiserver.protobuf.decode import UnknownType, decode
    from services.apiserver.protobuf.wire import WireError

    try:
        return decode(raw, schema_name)
    except UnknownType as e:
        raise status.unsupported_media([JSON, YAML]) from e
    except OutOfBounds as e:
        raise out_of_bounds(e) from e
    except (WireError, msgspec.DecodeError, ValueError) as e:
        raise status.bad_request(f"the protobuf body cannot be read: {e}") from e
    except RecursionError:
        raise out_of_bounds(too_deep()) from None


def _yaml_error(error: Any) -> str:
    mark = getattr(error, "problem_mark", None)
    # The C parser counts the line after the end as one; the message names the last line that is there.
    last = mark.line + (0 if mark is not None and mark.line and mark.column == 0 else 1) if mark is not None else 0
    line = f"line {last}: " if mark is not None else ""
    return f"yaml: {line}{getattr(error, 'problem', None) or error}"


def go_json_error(raw: bytes, error: Exception) -> str:
    """The error text of Go's JSON parser for a malformed document."""
    text = raw.decode("utf-8", "replace").lstrip()
    if not text:
        return "unexpected end of JSON input"
    message = str(error)
    if "ended prematurely" in message or "truncated" in message:
        return "unexpected end of JSON input"
    if text[0] == "{":
        inner = text[1:].lstrip()
        if inner and inner[0] not in '"}':
            return f"invalid character '{inner[0]}' looking for beginning of object key string"
        if not inner:
            return "unexpected end of JSON input"
    elif text[0] not in '[{"-0123456789tfn':
        return f"invalid character '{text[0]}' looking for beginning of value"
    return message


def dump_yaml(raw: bytes) -> bytes:
    """JSON bytes as a YAML document."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return yaml.dump(_decode(raw), Dumper=dumper, sort_keys=True, allow_unicode=True).encode()
