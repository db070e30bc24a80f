"""The server for AI assistants: runs their code in sandboxed kernels, and says what was refused and what helps."""
