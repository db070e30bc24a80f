"""What a finding will be as a violation, so that words and remedies are those that the refusal itself would have."""

from __future__ import annotations

import errno

from sentinel_kernel.policy.hints import complete
from sentinel_kernel.policy.host_commands import typed_installs
from sentinel_kernel.policy.occurrence import host_refusal, make_occurrence
from sentinel_kernel.policy.preflight_finding import DANGEROUS_RULES
from sentinel_kernel.policy.request import Request
from sentinel_kernel.policy.verdict import judge
from sentinel_kernel.policy.violation import make_violation
from sentinel_kernel.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.compiled import CompiledPolicy
    from sentinel_kernel.policy.leeway import Leeway
    from sentinel_kernel.policy.mapping import Mappings
    from sentinel_kernel.policy.preflight_finding import Finding
    from sentinel_kernel.policy.violation import Violation

_ERRNO = {"path_read_only": errno.EROFS, "network_unreachable": errno.ENETUNREACH}


def expected(finding: Finding, policy: CompiledPolicy) -> Violation | None:
    """Return the violation that the line will be, None where it will be none, or no single one."""
    if finding.rules == DANGEROUS_RULES or (finding.subject is not None and finding.subject[0] == "package"):
        return None
    if finding.syscall is not None:
        number = policy.architecture.syscalls.get(finding.syscall)
        if number is None:
            return None
        first, second, third, fourth, fifth, sixth = finding.registers
        registers = (first, second, third, fourth, fifth, sixth)
        request = Request(
            number, policy.architecture.audit_arch, registers, 0, 0, "", is_worker=finding.raises
        )
        made = make_violation(request, judge(request, policy), policy, "", 0)
    elif finding.cause == "call":
        return None
    elif finding.cause == "host_refused":
        name = finding.subject[1] if finding.subject is not None else ""
        made = host_refusal(name, 0, "not-listed", id="", profile=policy.profile_name, time_ms=0)
        made = replace(
            made, values={**made.values, "does": "expected"}
        )  # no word of what was sent: nothing ran
    else:
        made = make_occurrence(
            finding.cause,
            id="",
            profile=policy.profile_name,
            rule=finding.rule,
            time_ms=0,
            errno=_ERRNO.get(finding.cause),
            subject=finding.subject,
        )
    return replace(made, line=finding.line, source=finding.source)


def with_remedies(
    finding: Finding, policy: CompiledPolicy, code: str, leeway: Leeway, mappings: Mappings | None = None
) -> Finding:
    """Return the finding with the hint and the remedies of the violation that the line will be.

    Raises:
        MappingError: the shipped words can't be read.

    """
    violation = expected(finding, policy)
    if violation is None:
        is_package = finding.rules != DANGEROUS_RULES and finding.subject and finding.subject[0] == "package"
        installs = typed_installs(code, finding.line, leeway) if is_package else ()
        return replace(finding, remedies=tuple(installs)) if installs else finding
    completed = complete(violation, mappings, leeway=leeway, code=code)
    hint = completed.hint
    if completed.remedies and completed.remedies[0].kind != "magic":
        # The words about a changed cell point to a page about violations, and there is none yet.
        hint = complete(violation, mappings, leeway=leeway).hint
    return replace(finding, hint=hint or finding.hint, remedies=completed.remedies)
