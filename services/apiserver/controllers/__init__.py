"""What runs beside requests: garbage collection, namespaces, definitions, aggregated APIs."""
