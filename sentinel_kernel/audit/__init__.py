"""The audit trail: what ran, what was refused, what it used; one database per user. Standard library alone."""
