"""The control plane on a host cluster: installed, extended and removed there (init, addons, deinit)."""
