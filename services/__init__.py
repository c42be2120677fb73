"""The services, the commands, and what they share: a runtime (`_kit`) and the rules of the domain (`_rules`)."""
