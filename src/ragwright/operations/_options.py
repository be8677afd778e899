"""Settings of the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..core import option
from ..project import Settings


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """What the audit log of a project keeps, and for how long."""

    keep: Literal["auto", "always", "never"] = option(
        "auto",
        "Keep an audit log: `auto` where keys were made or a proxy names people, `always` or "
        "`never`.",
    )
    days: int = option(
        365, "Days after which an event is deleted; a change holds for new events.", ge=1
    )
    questions: bool = option(False, "Store the texts of questions in the events, too.")
    wait: bool = option(
        True, "Send a reply only once its event is stored; false: events may be lost by a crash."
    )
    flood: int = option(
        120,
        "Most events a minute of requests with a wrong key; others are counted.",
        ge=1,
    )


def audit_options(settings: Settings) -> AuditOptions:
    """Return the keys below ``serve.audit``."""
    options: AuditOptions = settings.section("serve").audit
    return options
