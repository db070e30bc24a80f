"""What the tests share: the real supervisor driven over its own protocol, and looks at what is left behind."""
