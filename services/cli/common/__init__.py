"""What commands share: options, the way to the control plane and the log, printing, errors. No command."""
