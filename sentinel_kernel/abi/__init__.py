"""Numbers: constants and structure layouts, one file per header of the Linux kernel."""
