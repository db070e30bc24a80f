import subprocess

# A program that says so itself, and no Python error.
done = subprocess.run(["dd", "if=/dev/zero", "of=/dev/shm/filler", "bs=1M"], capture_output=True, text=True)
print(done.stderr)
