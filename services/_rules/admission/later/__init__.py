"""Admission of autoscaling, quota, search and multi-cluster services and ingresses."""
