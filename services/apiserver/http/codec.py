"""Reading request bodies: JSON and YAML by media type, with errors worded as clients know them."""

from typing import Any

import msgspec

from services.apiserver.core import status_errors as status

JSON, YAML = "application/json", "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_ACCEPTED = [JSON, YAML, PROTOBUF]
_DEEPEST = 500
_decode = msgspec.json.Decoder().decode


def media_type(header: str | None) -> str:
    """The media type without parameters, lower case."""
    return (header or "").partition(";")[0].strip().lower()


def decode_json(raw: bytes) -> Any:
    """JSON of a body; raises 400."""
    try:
        return _decode(raw)
    except msgspec.DecodeError as e:
        raise status.bad_request(f"couldn't get version/kind; json parse error: {go_json_error(raw, e)}") from e
    except UnicodeDecodeError as e:
        raise status.bad_request("couldn't get version/kind; json parse error: the body is not UTF-8") from e


def decode_yaml(raw: bytes) -> Any:
    """YAML of a body (one document, JSON types only); raises 400."""
    import yaml

    from services._rules.kubernetes.yaml_reading import YamlReadingError, parse

    try:
        return parse(raw.decode(), _DEEPEST)
    except yaml.YAMLError as e:
        raise status.bad_request(f"error decoding YAML: error converting YAML to JSON: {_yaml_error(e)}") from e
    except (YamlReadingError, UnicodeDecodeError) as e:
        raise status.bad_request(f"error decoding YAML: error converting YAML to JSON: yaml: {e}") from e


def decode_body(raw: bytes, header: str | None, schema_name: str = "") -> tuple[Any, bytes]:
    """A body of a create or update request and its JSON text; raises 400 or 415.

    `schema_name` is the OpenAPI name of the type that is expected; with it protobuf bodies can be read too.
    """
    media = media_type(header)
    if media in ("", JSON):
        return decode_json(raw), raw
    if media == YAML:
        body = decode_yaml(raw)
        return body, msgspec.json.encode(body, order="sorted")
    if media == PROTOBUF and schema_name:
        body = decode_protobuf(raw, schema_name)
        return body, msgspec.json.encode(body)
    raise status.unsupported_media(_ACCEPTED)


def decode_protobuf(raw: bytes, schema_name: str) -> Any:
    """A body in Kubernetes' protobuf encoding; raises 400, or 415 for types without a field table."""
    from services.apiserver.protobuf.decode import UnknownType, decode
    from services.apiserver.protobuf.wire import WireError

    try:
        return decode(raw, schema_name)
    except UnknownType as e:
        raise status.unsupported_media([JSON, YAML]) from e
    except (WireError, UnicodeDecodeError, ValueError) as e:
        raise status.bad_request(f"the protobuf body cannot be read: {e}") from e


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
