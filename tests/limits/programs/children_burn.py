import os

while True:
    if os.fork() == 0:
        for _ in range(200_000):
            pass
        os._exit(0)
    os.wait()
