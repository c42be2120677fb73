"""The commands `fleetlog secrets`: keys that Secrets are encrypted with."""
