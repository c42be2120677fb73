"""Keys, accounts and configuration of the server of the log."""
