"""Gates of an audit: the most findings of a kind that a project may have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..core import ConfigError, counted, near
from ._records import KINDS, Audit

_RULE = re.compile(r"^\s*(?P<kind>[a-z]+)\s*(?P<sign><=|==|=|<)\s*(?P<count>\d+)\s*$")
_HINT = "write a kind, = or <=, and a whole number: references=0, copies<=5"


@dataclass(frozen=True, slots=True)
class AuditGate:
    """A rule: at most ``most`` findings of a kind; of all kinds for ``findings``."""

    kind: str
    most: int

    def __str__(self) -> str:
        """The rule as it is typed."""
        return f"{self.kind}<={self.most}"


def read_rules(text: str) -> tuple[AuditGate, ...]:
    """Rules such as ``references=0, copies<=5``; ``=`` means at most.

    Raises:
        ConfigError: There is none, one cannot be read, or names an unknown kind.
    """
    if not text.strip():
        raise ConfigError("the gate has no rule", where="--gate", hint=_HINT)
    rules = []
    for part in text.split(","):
        match = _RULE.match(part)
        if match is None:
            raise ConfigError(
                f"cannot read the rule {part.strip()!r}",
                where="--gate",
                hint=_HINT,
            )
        if match["kind"] not in (*KINDS, "findings"):
            raise ConfigError(
                f"unknown kind of finding {match['kind']!r}",
                where="--gate",
                hint=near(match["kind"], (*KINDS, "findings")),
            )
        rules.append(AuditGate(match["kind"], int(match["count"]) - (match["sign"] == "<")))
    return tuple(rules)


def require_kinds(rules: Sequence[AuditGate], kinds: Sequence[str]) -> None:
    """Refuse a rule on a kind that is not looked for: it would pass whatever the documents hold.

    Raises:
        ConfigError: With the kinds to name.
    """
    for rule in rules:
        if rule.kind not in (*kinds, "findings"):
            raise ConfigError(
                f"the gate has the rule {rule}, but the audit does not look for {rule.kind}",
                where="--gate",
                hint=f"add it to --kinds: {','.join((*kinds, rule.kind))}",
            )


def check_audit(audit: Audit, rules: Sequence[AuditGate]) -> tuple[str, ...]:
    """One sentence for each rule that the audit fails; empty if it passes.

    Raises:
        ConfigError: A rule is on a kind that the audit did not look for.
    """
    require_kinds(rules, audit.kinds)
    counts = {**audit.counts(), "findings": len(audit.findings)}
    failed = []
    for rule in rules:
        if counts[rule.kind] > rule.most:
            head = "" if rule.kind == "findings" else f"{rule.kind}: "
            count = counted(counts[rule.kind], "finding")
            failed.append(f"{head}{count}, at most {rule.most} allowed ({rule})")
    return tuple(failed)
