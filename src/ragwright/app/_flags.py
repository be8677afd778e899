"""Flags as a record, spread over the command line: common to `eval` and `score`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer

from ..project import Session
from ._console import Console
from ._options import (
    HERE,
    DryRun,
    Jobs,
    Json,
    MaxCost,
    NoCache,
    Output,
    Overrides,
    Project,
    Quiet,
    Repeat,
    Resume,
    RunName,
    Seed,
)

By = Annotated[
    list[str] | None,
    typer.Option("--by", help="Also per value of a field: persona_name, a column; repeatable."),
]
WithRows = Annotated[
    bool,
    typer.Option("--rows", help="With --json: also every row, with answer, scores and passages."),
]


@dataclass(frozen=True, slots=True)
class WorkFlags:
    """The flags of every command that works on a project; each is an option of the command line."""

    project: Project = HERE
    overrides: Overrides = None
    as_json: Json = False
    quiet: Quiet = False
    resume: Resume = False
    no_cache: NoCache = False
    jobs: Jobs = None
    max_cost: MaxCost = None
    seed: Seed = 0
    dry_run: DryRun = False

    @property
    def settings(self) -> tuple[str, ...]:
        """Overrides of the project file."""
        return tuple(self.overrides or ())

    def session(self, attempt: int = 0) -> Session:
        """The session for these flags; ``attempt`` requests new replies."""
        return Session(
            self.settings,
            jobs=self.jobs,
            reuse=not self.no_cache,
            attempt=attempt,
            max_cost=self.max_cost,
            seed=self.seed,
        )


@dataclass(frozen=True, slots=True)
class RunFlags(WorkFlags):
    """The flags of every command that makes a run; each is an option of the command line."""

    output: Output = None
    name: RunName = ""

    @property
    def console(self) -> Console:
        """Where the command prints."""
        return Console(self.quiet, self.output)


@dataclass(frozen=True, slots=True)
class MeasuringFlags(RunFlags):
    """The flags of every command that scores rows once; each is an option of the command line."""

    by: By = None
    repeat: Repeat = None

    @property
    def settings(self) -> tuple[str, ...]:
        """Overrides of the project file, ``--repeat`` among them."""
        repeat = () if self.repeat is None else (f"judge.repeat={self.repeat}",)
        return (*(self.overrides or ()), *repeat)


@dataclass(frozen=True, slots=True)
class ScoringFlags(MeasuringFlags):
    """The flags of every command that shows scores; each is an option of the command line."""

    with_rows: WithRows = False


def with_flags(command: Callable[..., int]) -> Callable[..., int]:
    """A command whose parameter ``flags``, a record, is an option of the command line per field."""
    given = signature(command, eval_str=True).parameters
    record = given["flags"].annotation
    hints = get_type_hints(record, include_extras=True)
    shared = [
        Parameter(
            field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(record)
    ]
    own = [parameter for parameter in given.values() if parameter.name != "flags"]

    @functools.wraps(command)
    def called(**words: Any) -> int:
        flags = record(**{field.name: words.pop(field.name) for field in shared})
        return command(**words, flags=flags)

    called.__signature__ = Signature([*own, *shared])  # type: ignore[attr-defined]
    return called
