"""The options of commands: declared once as records, taken by the commands that name them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from typer import BadParameter, Context, Option

from .. import jobs, workbench
from ..core import ConfigError, Filter, group_names
from ..project import ProjectFolder, Session, load_settings
from ..workbench import Workbench
from ._console import Console, report_errors

HERE = Path()
"""The folder a command is called in."""

RUN_HELP = "A run (latest, latest~1, a name, the beginning of an id), or a file of scores."
"""How a run can be named wherever one is asked for."""

CLUSTER_HELP = (
    "Group rows by document (the default), passage (the default below 20 gold documents), a column "
    "or row: a group counts as one observation."
)

_Words = list[str] | None


@dataclass(frozen=True, slots=True)
class Flags:
    """The options that several commands share; one that a command lacks keeps its default."""

    project: Annotated[
        Path, Option("--project", "-C", help="Folder of the project.", show_default=False)
    ] = HERE
    overrides: Annotated[
        _Words, Option("--set", metavar="KEY=VALUE", help="Override a key of the project file.")
    ] = None
    measures: Annotated[
        str,
        Option(
            help="Comma-separated measures: Recall@5,TokenF1; by default those that suit the rows."
        ),
    ] = ""
    cluster: Annotated[str, Option(help=CLUSTER_HELP)] = ""
    filters: Annotated[
        _Words,
        Option(
            "--filter",
            metavar="FIELD=VALUE",
            help="Hits must match: party=D, topic=health|tax, year=2019..2021, or kind!=record to "
            "leave out; repeatable.",
        ),
    ] = None
    soft: Annotated[
        _Words,
        Option(
            metavar="FIELD=VALUE^WEIGHT",
            help="Hits should match, ranked by weight: topic=health^3, lang!=fr; repeatable.",
        ),
    ] = None
    as_groups: Annotated[
        str | None,
        Option(
            metavar="GROUP,GROUP",
            help="See what readers of these groups see; `everyone` for readers without groups.",
        ),
    ] = None
    as_json: Annotated[bool, Option("--json", help="Print one JSON document.")] = False
    quiet: Annotated[bool, Option("--quiet", "-q", help="No progress, no remarks, no notes.")] = (
        False
    )
    resume: Annotated[bool, Option("--resume", help="Continue an unfinished run.")] = False
    retry_errors: Annotated[
        bool, Option("--retry-errors", help="Run failed rows again; stored replies are kept.")
    ] = False
    no_cache: Annotated[
        bool, Option("--no-cache", help="Ignore stored replies and make every call again.")
    ] = False
    jobs: Annotated[
        int | None,
        Option("-j", "--jobs", min=1, help="Maximum number of requests in flight per model."),
    ] = None
    max_cost: Annotated[
        float | None, Option(min=0.0, help="Stop before the cost exceeds this amount.")
    ] = None
    seed: Annotated[int, Option(help="Seed of every random choice.")] = 0
    limit: Annotated[
        int | None,
        Option(
            min=1,
            help="Maximum number of questions, chosen by the seed, each with all its personas.",
        ),
    ] = None
    served: Annotated[
        bool, Option("--served", help="Use the promoted configuration instead of the project file.")
    ] = False
    reload: Annotated[
        bool,
        Option(
            "--reload",
            help="Serve the project's own settings instead of the promoted ones; follow changes.",
        ),
    ] = False
    dry_run: Annotated[
        bool, Option("--dry-run", help="Show the calls and cost without doing the work.")
    ] = False
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="Write the result to this file.")
    ] = None
    name: Annotated[
        str, Option(help="Name of the run; of several runs with one name, the newest is used.")
    ] = ""
    by: Annotated[
        _Words,
        Option(help="Also show results per value of a field: persona_name, a column; repeatable."),
    ] = None
    repeat: Annotated[
        int | None, Option(min=1, help="Independent judgments of each row (judge.repeat).")
    ] = None
    with_rows: Annotated[
        bool,
        Option("--rows", help="With --json: also every row, with answer, scores and passages."),
    ] = False

    @property
    def console(self) -> Console:
        """The output of the command."""
        return Console(self.quiet, self.output, self.writes_json)

    @property
    def writes_json(self) -> bool:
        """True if the result is JSON: by ``--json``, or by the ending of its file."""
        return self.as_json or (self.output is not None and self.output.suffix == ".json")

    @property
    def resumes(self) -> bool:
        """True if an unfinished run is continued; ``--retry-errors`` continues it, too."""
        return self.resume or self.retry_errors

    @property
    def settings(self) -> tuple[str, ...]:
        """Overrides of the project file, ``--repeat`` among them."""
        repeat = () if self.repeat is None else (f"judge.repeat={self.repeat}",)
        return (*(self.overrides or ()), *repeat)

    @property
    def session(self) -> Session:
        """The settings of the session."""
        return Session(
            self.settings,
            jobs=self.jobs,
            reuse=not self.no_cache,
            max_cost=self.max_cost,
            seed=self.seed,
            filters=tuple(self.filters or ()),
            soft=tuple(self.soft or ()),
            served=self.served,
        )

    def rights(self, bench: Workbench) -> tuple[Filter, ...]:
        """What the readers of ``--as-groups`` may read, as a filter; none without it.

        Raises:
            ConfigError: It does not name groups.
        """
        if self.as_groups is None:
            return ()
        return (bench.project.settings.groups.right(group_names(self.as_groups)),)

    def note_export(self, command: str, path: Path) -> None:
        """Add the event of a command that writes to a file, where the audit log is kept.

        Raises:
            StoreError: It cannot be stored; then nothing is written.
        """
        folder = ProjectFolder(self.project)
        if self.dry_run or not folder.opened:
            return
        try:
            settings = load_settings(folder.settings, self.settings)
        except ConfigError:
            return  # the command says so, or does without them
        action = command.removeprefix("ragwright ")
        jobs.record(folder, settings, jobs.owner_event("exported", action, path.name))

    def open(self, session: Session | None = None) -> Workbench:
        """Open the project with a session; with that of the flags by default."""
        return workbench.Workbench.open(self.project, session or self.session)


WORK = "project overrides as_json quiet resume no_cache jobs max_cost seed dry_run"
"""Options of the commands that work on a project."""

MEASURING = f"{WORK} output name by repeat"
"""Options of the commands that score rows."""


def takes(shared: str = "") -> Callable[[Callable[..., int | None]], Callable[..., None]]:
    """Make a function a command: it prints its errors and ends with its exit code.

    Each parameter of the function is an option. A parameter that is a record is an option per
    field; of :class:`Flags` it takes the fields named in ``shared``, separated by spaces.
    """

    def decorate(run: Callable[..., int | None]) -> Callable[..., None]:
        own: list[Parameter] = []
        if {"project", "output"} <= {*shared.split()}:
            own.append(Parameter(_CONTEXT, Parameter.KEYWORD_ONLY, annotation=Context))
        spread: dict[str, tuple[Any, list[Parameter]]] = {}
        for parameter in signature(run, eval_str=True).parameters.values():
            record: Any = parameter.annotation
            if is_dataclass(record):
                spread[parameter.name] = record, _options(record, shared.split())
            else:
                own.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))

        @functools.wraps(run)
        def called(**words: Any) -> int | None:
            context = words.pop(_CONTEXT, None)
            for name, (record, options) in spread.items():
                words[name] = record(**{option.name: words.pop(option.name) for option in options})
                if context is not None and record is Flags and words[name].output is not None:
                    words[name].note_export(context.command_path, words[name].output)
            return run(**words)

        options = [option for _, options in spread.values() for option in options]
        called.__signature__ = Signature([*own, *options])  # type: ignore[attr-defined]
        return report_errors(called)

    return decorate


_CONTEXT = "called_as"


def _options(record: Any, shared: Sequence[str]) -> list[Parameter]:
    """The fields of a record as parameters; of :class:`Flags` only the shared ones."""
    known = {field.name: field.default for field in fields(record)}
    hints = get_type_hints(record, include_extras=True)
    return [
        Parameter(name, Parameter.KEYWORD_ONLY, default=known[name], annotation=hints[name])
        for name in (shared if record is Flags else known)
    ]


def names_of(text: str) -> tuple[str, ...]:
    """Split names at commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def tenant_name(value: str | None) -> str | None:
    """Return the name of a tenant; refuse an empty one, which would mean no tenant."""
    if value is not None and not value.strip():
        raise BadParameter("the name of the tenant is empty; is a variable not set?")
    return value
