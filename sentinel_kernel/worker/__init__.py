"""What runs inside the sandbox: init and the worker, an ipykernel. Hostile from the first cell on."""
