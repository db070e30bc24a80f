"""Sentinel Kernel: a Jupyter kernel whose cells run in a rootless Linux sandbox that explains every refusal."""

__version__ = "0.1.0"
