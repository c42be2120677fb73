"""What happens inside of simulated containers: their logs, a small shell, an HTTP responder, and who may enter."""
