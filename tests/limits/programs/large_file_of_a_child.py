import subprocess

subprocess.run(["dd", "if=/dev/zero", "of=/tmp/large", "bs=256k", "count=100"], check=True)
