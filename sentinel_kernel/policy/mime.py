"""The MIME types of what the host says in outputs, as data; a worker may use neither (kernel/output_rule.py)."""

from __future__ import annotations

VIOLATION_TYPE = "application/vnd.sentinel.violation+json"
"""A violation (policy/violation.py, violation.schema.json)."""

LIMITS_TYPE = "application/vnd.sentinel.limits+json"
"""The limits in force and what is used of each: version, profile, kept_by, limits by name, and the sandbox."""

FILES_TYPE = "application/vnd.sentinel.files+json"
"""What cells wrote and is held: version, count, bytes, and files with path, kind, size (kernel/files_page.py)."""

NOTICE_TYPE = "application/vnd.sentinel.notice+json"
"""A notice: version, kind, message and hint in both languages; hosts and types of what was held back, where known.

What is shown beside it names those too; its message and hint do not.
"""
