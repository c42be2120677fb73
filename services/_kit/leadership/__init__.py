"""Which instance of a service leads, and whether it may write. What a leader does belongs to the runtime."""
