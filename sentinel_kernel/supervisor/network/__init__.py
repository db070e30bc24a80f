"""Hosts that a sandbox may reach: names that are looked up for it, connections that are made in its stead."""
