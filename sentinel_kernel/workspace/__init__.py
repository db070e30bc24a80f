"""What cells wrote: listed, compared, committed, taken back and saved, by descriptors alone. Standard library alone."""
