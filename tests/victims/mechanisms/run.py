"""RESULT TARGETS inside|outside: tries every mechanism and writes down what became of each."""

import attacking
import calls
import files
import namespaces
import proc
import processes
import sockets

__all__ = ["calls", "files", "namespaces", "proc", "processes", "sockets"]

attacking.main()
