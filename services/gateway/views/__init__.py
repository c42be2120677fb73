"""ResourceBindings and Works as they are shown, built from facts."""
