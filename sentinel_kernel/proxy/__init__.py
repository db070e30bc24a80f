"""The HTTP proxy of a sandbox: a process of its own that passes on the requests which a profile's rules allow."""
