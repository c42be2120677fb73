"""ResourceBindings and Works as they are served, built from facts."""
