"""What the state holds of policies and of the templates that wait for them: views, claims as they are written, keys."""
