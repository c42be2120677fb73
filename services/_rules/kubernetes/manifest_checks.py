"""What every manifest must have for an API server to read it back as an object."""


def is_readable(document: object) -> bool:
    """Whether a JSON value is an object with a kind and an apiVersion of at most one slash (it may be missing)."""
    if not isinstance(document, dict):
        return False
    kind, api_version = document.get("kind"), document.get("apiVersion")
    return isinstance(kind, str) and kind != "" and not (isinstance(api_version, str) and api_version.count("/") > 1)
