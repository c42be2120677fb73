"""Runs a service: folds facts, keeps dirty keys, decides, appends. The fold and the decision belong to the service."""
