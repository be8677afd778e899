"""`ragwright rehearse`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from typer import Option

from ...core import ConfigError, group_names
from ...project import ProjectFolder, Session
from ...rehearsal import (
    ReaderGroup,
    Rehearsal,
    RehearsalForecast,
    RehearsalVerdict,
    Rehearsing,
    gate_rehearsal,
    parse_rehearsal_gate,
)
from ...report import rehearsal_json, rehearsal_page, rehearsal_table
from ...serve import Identity, ServeKey, ServeKeys
from .._console import EXIT_FAILED, EXIT_UNTRUSTED, Console
from .._flags import Flags, takes
from .._show import forecast_text, ingest_forecast_json, ingest_forecast_text, show_progress

_PAGES = (".html", ".htm")


@dataclass(frozen=True, slots=True)
class RehearseFlags:
    """What is changed, and by which questions it is looked at."""

    sources: list[str] | None = Option(
        None,
        metavar="NEW|NEW=OLD",
        help="Documents that would be read; NEW=OLD reads NEW in place of the ingested source OLD; "
        "repeatable.",
    )
    prune: bool = Option(
        False, "--prune", help="Also remove documents of --sources that are no longer there."
    )
    config: str = Option(
        "",
        metavar="tuned|served|RUN|FILE",
        help="Another configuration: the best trial of the latest sweep, the promoted one, that of "
        "a run, or a file of settings.",
    )
    testset: str = Option("", help="Ask the rows of this test set.")
    served_questions: bool | None = Option(
        None,
        "--served-questions/--no-served-questions",
        help="Ask the questions that were served; the default without --testset.",
    )
    scope: str = Option(
        "", help="Tenant whose served questions are asked, with the filters and groups of its key."
    )
    since: str = Option("", help="Only questions served then or later: 2026-03-01.")
    search_only: bool = Option(
        False, "--search-only", help="Compare the passages only; no answers are written."
    )

    def options(
        self, flags: Flags, readers: tuple[ReaderGroup, ...], asked_by: Identity | None
    ) -> Rehearsing:
        """Options of the rehearsal."""
        return Rehearsing(
            settings=flags.settings,
            config=self.config,
            sources=tuple(self.sources or ()),
            prune=self.prune,
            testset=self.testset,
            served=self.served_questions,
            scope="" if asked_by is None else asked_by.scope,
            groups=None if asked_by is None or asked_by.role == "owner" else asked_by.groups,
            since=self.since,
            limit=flags.limit,
            measures=flags.measures,
            search_only=self.search_only,
            readers=readers,
            retry_errors=flags.retry_errors,
            seed=flags.seed,
        )


@takes(
    "project overrides as_groups as_json quiet no_cache jobs max_cost seed dry_run output measures "
    "limit retry_errors served"
)
def command(
    flags: Flags,
    change: RehearseFlags,
    gate: str | None = Option(
        None, help='Largest shares, such as "lost_citations<=2%, worse<=1%": exit code 100 above.'
    ),
) -> int:
    """Show which answers a change of settings or sources would change, and why."""
    rules = () if gate is None else parse_rehearsal_gate(gate)
    keys = _keys(flags)
    asked_by = _asked_by(flags, keys, change.scope)
    readers = tuple(
        ReaderGroup(key.name, key.filters, () if key.role == "owner" else key.groups)
        for key in keys
        if (key.filters or (key.groups and key.role != "owner"))
        and (asked_by is None or key.scope == asked_by.scope)
    )
    options, console = change.options(flags, readers, asked_by), flags.console
    with flags.open(_session(flags, asked_by)) as bench:
        if flags.dry_run:
            forecast = bench.forecast_rehearse(options)
            console.show(lambda: _forecast_json(forecast), lambda: _forecast_text(forecast))
            return 0
        with show_progress(console, bench):
            rehearsal = bench.rehearse(options)
    verdict = gate_rehearsal(rehearsal, rules) if rules else None
    show_rehearsal(flags, rehearsal, verdict)
    return rehearsal_code(verdict)


def rehearsal_code(verdict: RehearsalVerdict | None) -> int:
    """The exit code of a gate's outcome; 0 without a gate."""
    state = "passed" if verdict is None else verdict.state
    return {"passed": 0, "failed": EXIT_FAILED}.get(state, EXIT_UNTRUSTED)


def show_rehearsal(flags: Flags, rehearsal: Rehearsal, verdict: RehearsalVerdict | None) -> None:
    """Print a rehearsal as text or JSON, or write its page."""
    console: Console = flags.console
    if flags.output is not None and flags.output.suffix in _PAGES:
        page = rehearsal_page(rehearsal, verdict)
        if flags.as_json:
            Console(flags.quiet, as_json=True).json(rehearsal_json(rehearsal, verdict))
        else:
            table = rehearsal_table(rehearsal, verdict, Console().columns())
            Console(flags.quiet).result(table)
        console.result(page.rstrip("\n"))
    elif flags.writes_json:
        console.json(rehearsal_json(rehearsal, verdict))
    else:
        console.result(rehearsal_table(rehearsal, verdict, console.columns()))


def _keys(flags: Flags) -> tuple[ServeKey, ...]:
    """The keys of the project's server."""
    folder = ProjectFolder(flags.project).require()
    if not folder.ledger.exists():
        return ()
    keys = ServeKeys(folder)
    try:
        return keys.all()
    finally:
        keys.close()


def _asked_by(flags: Flags, keys: tuple[ServeKey, ...], scope: str) -> Identity | None:
    """As whom the questions are asked; None for one who sees everything."""
    tenant = _tenant(keys, scope)
    if flags.as_groups is None:
        return tenant
    if tenant is not None:
        raise ConfigError(
            "--scope and --as-groups both say as whom is asked",
            where="ragwright rehearse",
            hint="leave out --as-groups: the key of --scope has its groups",
        )
    return Identity("", groups=group_names(flags.as_groups))


def _tenant(keys: tuple[ServeKey, ...], scope: str) -> ServeKey | None:
    """A key of the tenant whose questions are asked again; None without a tenant."""
    if not scope:
        return None
    match = next((key for key in keys if scope in (key.scope, key.name)), None)
    if match is None:
        tenants = ", ".join(sorted({key.scope for key in keys if key.scope}))
        raise ConfigError(
            f"no key of the server has the tenant {scope!r}, so its filters are unknown",
            where="--scope",
            hint=f"one of: {tenants}" if tenants else "`ragwright keys list` shows the keys",
        )
    return match


def _session(flags: Flags, asked_by: Identity | None) -> Session:
    """The session of both sides; --set is the change, which only one of them has."""
    filters = () if asked_by is None else asked_by.filters
    attempt = int(flags.retry_errors)
    return replace(flags.session, overrides=(), attempt=attempt, filters=filters)


def _forecast_json(forecast: RehearsalForecast) -> dict[str, Any]:
    index = forecast.index
    return {
        "questions": forecast.questions,
        "answers": asdict(forecast.answers),
        "index": None if index is None else ingest_forecast_json(index),
        "notes": list(forecast.notes),
    }


def _forecast_text(forecast: RehearsalForecast) -> str:
    lines = [f"{forecast.questions} questions, asked before and after the change"]
    lines.append(forecast_text(forecast.answers))
    if forecast.index is not None:
        lines += ["the index of the change:", ingest_forecast_text(forecast.index)]
    lines += [f"note: {note}" for note in forecast.notes]
    return "\n".join(lines)
