import os

os.mkdir("/tmp/many")
number = 0
while True:
    number += 1
    open(f"/tmp/many/{number}", "w").close()
