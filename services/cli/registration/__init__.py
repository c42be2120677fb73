"""Clusters that make themselves pull members with a token: register deploys their agent, unregister removes it."""
