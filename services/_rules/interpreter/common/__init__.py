"""What every interpretation shares: its interface, its error, and the field types of native kinds."""
