"""The trusted host side of the Jupyter kernel: it proxies messages and never runs user code."""
