import time

while True:
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        print("not me")
