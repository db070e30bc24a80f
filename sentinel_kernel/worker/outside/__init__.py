"""What programs in the sandbox find in the place of Sentinel Kernel: where its commands are run."""
