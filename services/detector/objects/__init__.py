"""The objects of the control plane as the detector keeps them: their bytes, their content, and those on record."""
