"""Gates of an audit: the most findings of a kind that a project may have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..core import ConfigError, counted, near
from ._records import KINDS, Audit

_RULE = re.compile(r"^\s*(?P<kind>[a-z]+)\s*(?P<sign><=|==|=|<)\s*(?P<count>\d+)\s*$")


@dataclass(frozen=True, slots=True)
class AuditGate:
    """A rule: at most ``most`` findings of a kind; of all kinds for ``findings``."""

    kind: str
    most: int

    def __str__(self) -> str:
        """The rule as it is typed."""
        return f"{self.kind}<={self.most}"


def read_rules(text: str) -> tuple[AuditGate, ...]:
    """Rules such as ``contradictions=0, copies<=5``; ``=`` means at most.

    Raises:
        ConfigError: A rule cannot be read, or names an unknown kind.
    """
    rules = []
    for part in text.split(","):
        match = _RULE.match(part)
        if match is None:
            raise ConfigError(
                f"cannot read the rule {part.strip()!r}",
                where="--gate",
                hint="write a kind, = or <=, and a whole number: contradictions=0, copies<=5",
            )
        if match["kind"] not in (*KINDS, "findings"):
            raise ConfigError(
                f"unknown kind of finding {match['kind']!r}",
                where="--gate",
                hint=near(match["kind"], (*KINDS, "findings")),
            )
        rules.append(AuditGate(match["kind"], int(match["count"]) - (match["sign"] == "<")))
    return tuple(rules)


def check_audit(audit: Audit, rules: Sequence[AuditGate]) -> tuple[str, ...]:
    """One sentence for each rule that the audit fails; empty if it passes.

    Raises:
        ConfigError: A rule is on a kind that the audit did not look for.
    """
    counts = {**audit.counts(), "findings": len(audit.findings)}
    failed = []
    for rule in rules:
        if rule.kind not in counts:
            raise ConfigError(
                f"the audit did not look for {rule.kind}",
                where="--gate",
                hint=f"add it to --kinds: {','.join((*audit.kinds, rule.kind))}",
            )
        if counts[rule.kind] > rule.most:
            count = counts[rule.kind]
            what = counted(count, "finding") if rule.kind == "findings" else f"{count} {rule.kind}"
            failed.append(f"{what}, at most {rule.most} allowed ({rule})")
    return tuple(failed)
