with open("/tmp/filler", "wb") as file:
    while True:
        file.write(bytes(1 << 20))
