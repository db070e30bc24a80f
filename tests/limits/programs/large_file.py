with open("/tmp/large", "wb") as file:
    while True:
        file.write(bytes(1 << 18))
