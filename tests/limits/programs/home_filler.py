import os

with open(os.path.expanduser("~/filler"), "wb") as file:
    while True:
        file.write(bytes(1 << 20))
