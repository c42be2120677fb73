"""The commands `fleetlog trace …`: changes as traces for OpenTelemetry; what a client in a member reaches."""
