"""Clusters that make themselves pull members: register deploys their agent, `fleetlog nats` lets it in."""
