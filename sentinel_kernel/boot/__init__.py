"""Child: the ordered steps from clone to exec."""
