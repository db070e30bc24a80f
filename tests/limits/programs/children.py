import subprocess

children = []
while True:
    children.append(subprocess.Popen(["sleep", "600"]))
