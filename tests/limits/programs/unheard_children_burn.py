# The times of children are lost where nobody waits for them.
import os
import signal

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(2):
    if os.fork() == 0:
        while True:
            pass
while True:
    pass
