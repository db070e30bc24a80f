"""Where the report on an error stands in a message's metadata; the host takes it out."""

METADATA_KEY = "sentinel_failure"
