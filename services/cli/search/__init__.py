"""Objects of members: how search is set up in an installation, and what `fleetlog search` asks and prints."""
