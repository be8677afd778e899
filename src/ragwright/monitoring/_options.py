"""Settings of measuring served answers and of reporting their drift."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date

from .. import measure
from ..core import ConfigError, notice_address_faults, option
from ..project import Settings

_OFFLINE = ("KPrecision(content+bigrams)",)
"""Measures of served answers where none are named."""


@dataclass(frozen=True, slots=True)
class AlertOptions:
    """When a drift of served answers is reported, and to whom."""

    notify: tuple[str, ...] = option(
        (), "Apprise addresses that get one notice per drift; secrets only as ${VARIABLE}."
    )

    def __post_init__(self) -> None:
        """Refuse addresses that cannot be sent to, or that hold a secret."""
        for address in self.notify:
            for what, hint in notice_address_faults(address):
                raise ConfigError(what, hint=hint)


@dataclass(frozen=True, slots=True)
class ServedMeasureOptions:
    """How served answers are measured in the background."""

    share: float = option(
        0.0, "Share of the served answers that is measured, 0 (none) to 1.", ge=0, le=1
    )
    measures: tuple[str, ...] = option(
        _OFFLINE,
        "Measures that need no reference; judged ones ask `judge.model`.",
    )
    daily_budget: float | None = option(
        None, "Most money that measuring may cost a day (UTC); judges then need prices.", gt=0
    )
    interval: float = option(60.0, "Seconds between two looks for answers to measure.", gt=0)
    window: int = option(
        28,
        "Days of the reference period, and of each period that is compared with it.",
        ge=1,
    )
    reference: str = option(
        "",
        "First day of the reference period, such as 2026-11-03; the first measured day if empty.",
    )
    alert: AlertOptions = field(default_factory=AlertOptions)

    def __post_init__(self) -> None:
        """Refuse unknown measures and days."""
        if self.measures != _OFFLINE:
            measure.parse_measures(self.measures)  # loads them all
        try:
            _ = self.reference and date.fromisoformat(self.reference)
        except ValueError as error:
            raise ConfigError(
                f"{self.reference!r} is not a day", hint="write reference: '2026-11-03'"
            ) from error


@dataclass(frozen=True, slots=True)
class MeasureServedOptions:
    """Options of measuring served answers, besides the section ``serve.measure``.

    Attributes:
        retry_errors: Also retry answers whose scoring ended in an error.
        most: Most answers of this pass; None for all that wait.
    """

    retry_errors: bool = False
    most: int | None = None


def measure_options(settings: Settings) -> ServedMeasureOptions:
    """Return the keys below ``serve.measure``."""
    options: ServedMeasureOptions = settings.section("serve").measure
    return options
