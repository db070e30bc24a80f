"""The trusted process that makes the sandbox, answers its held system calls and ends it."""
