"""What owners require and how their dependencies are bound: references, attached bindings, their Kubernetes Events.

Owners are objects whose policy says `propagateDeps`. Pure (docs/dependencies.md); where dependencies go from there is
`services/_rules/dependencies`.
"""
