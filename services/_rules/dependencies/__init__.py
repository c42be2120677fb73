"""What objects require beside them in members: where their dependencies go, and what they ask for together.

Pure: folds bindings that require others (docs/dependencies.md). How references of a kind are found is
`services/_rules/interpreter`; which objects they name is the detector's.
"""
