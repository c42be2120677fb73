"""Search backends: documents of objects in OpenSearch, or in Elasticsearch by the same protocol."""
