"""What a CustomResourceDefinition is refused for, one concept a module; `definition` puts them together."""
