"""Admission of PropagationPolicy and OverridePolicy in both scopes."""
