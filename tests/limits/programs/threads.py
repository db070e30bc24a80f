import threading
import time

# Small stacks: it is the count that is tried here, not the memory.
threading.stack_size(128 << 10)
while True:
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
