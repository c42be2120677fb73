"""CustomResourceDefinitions: checking them, serving what they define, generating those of the karmada.io API."""
