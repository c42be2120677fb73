"""The commands `fleetlog` and `karmadactl`: thin shells over the log and the Kubernetes API."""
