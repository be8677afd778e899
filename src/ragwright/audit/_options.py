"""Settings of an audit."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import ConfigError, near, option
from ._records import KINDS


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Which faults of documents are looked for, and from when on they count."""

    kinds: tuple[str, ...] = option((), f"Kinds of findings: {', '.join(KINDS)}; all if empty.")
    reach_depth: int = option(
        20,
        "Hits of a question of the test set among which a chunk must be to count as found.",
        ge=1,
    )

    def __post_init__(self) -> None:
        """Refuse a kind that does not exist."""
        check_kinds(self.kinds, "audit.kinds")


def check_kinds(names: tuple[str, ...], where: str) -> None:
    """Refuse a name that is not one of the kinds of findings.

    Raises:
        ConfigError: With the nearest name.
    """
    for name in names:
        if name not in KINDS:
            raise ConfigError(
                f"unknown kind of finding {name!r}",
                where=where,
                hint=f"{near(name, KINDS)} (kinds: {', '.join(KINDS)})",
            )
