"""What a profile means: parsing, compiling, verdicts, violations and their words; pure."""
