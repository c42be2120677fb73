"""What an API server reads of a manifest: whether it is an object at all, and a map of texts."""


def is_readable(document: object) -> bool:
    """Whether a JSON value is an object with a kind and an apiVersion of at most one slash (it may be missing)."""
    if not isinstance(document, dict):
        return False
    kind, api_version = document.get("kind"), document.get("apiVersion")
    return isinstance(kind, str) and kind != "" and not (isinstance(api_version, str) and api_version.count("/") > 1)


def map_of_text(value: object) -> dict[str, str]:
    """A map of texts by name, such as labels; empty for anything else."""
    return value if isinstance(value, dict) and all(isinstance(text, str) for text in value.values()) else {}
