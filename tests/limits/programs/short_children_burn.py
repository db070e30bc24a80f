import os
import signal
import time

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(600):
    reader, writer = os.pipe()
    if os.fork() == 0:
        while time.process_time() < 0.03:
            pass
        os._exit(0)
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
