import signal
import time

signal.signal(signal.SIGINT, signal.SIG_IGN)
while True:
    time.sleep(1)
