"""Which objects are secret, and how messages about them are redacted."""
