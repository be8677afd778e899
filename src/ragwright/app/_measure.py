"""`ragwright eval`."""

from __future__ import annotations

import re
import textwrap
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from typer import Argument, BadParameter, Option

from ..core import ConfigError, MeasureError, make_plain
from ..experiment import (
    Evaluation,
    EvaluationOptions,
    RowResult,
    evaluate,
    forecast_rows,
    open_results,
    score_run,
)
from ..jobs import PromotionGate, gate_evaluation
from ..measure import (
    Definition,
    GateOptions,
    GateOutcome,
    definitions,
    parse_measure,
    parse_measures,
    ranking_measures,
    read_declared_definition,
    unknown_measure,
)
from ..models import Models, UnderTest, open_system, read_system
from ..project import ProjectFolder, settings_without_file
from ..report import (
    failing,
    failing_text,
    gate_json,
    gate_junit,
    gate_markdown,
    gate_table,
)
from ..testsets import project_testset, read_qrels, read_run
from ._console import EXIT_FAILED, EXIT_UNTRUSTED, table
from ._flags import CLUSTER_HELP, MEASURING, RUN_HELP, Flags, takes
from ._show import (
    check_output,
    do_work,
    is_trusted,
    say_price,
    show_evaluation,
    stop_if_dry,
    take_few,
)


@takes(f"measures limit retry_errors {MEASURING} with_rows")
def eval_command(
    flags: Flags,
    testset: str = Option(help="A file of rows (JSONL, JSON, CSV), or beir:DIR/SPLIT."),
    split: str = Option(
        "",
        help="tune, confirm or all; reading confirm is logged in testsets/openings.jsonl. "
        "Default: tune if rows name splits.",
    ),
    retrieval_only: bool = Option(
        False, "--retrieval-only", help="Score only the retrieved passages; write no answers."
    ),
    system: str = Option(
        "",
        metavar="SYSTEM",
        help="Ask this system instead of the project: module:object, file.py:object, an address, "
        "http://host/v1#model, or system.yaml. Needs no project.",
    ),
    version: str = Option(
        "",
        "--system-version",
        help="Version of the system; stored replies of the same version are reused.",
    ),
) -> int:
    """Answer a test set and score the answers.

    The project answers, or any other system that --system names.
    """
    console = flags.console
    check_output(flags.output)
    under_test = _system(system, version, retrieval_only)
    folder = ProjectFolder(flags.project)
    folder = folder.begin() if under_test is not None else folder.require()
    # A misspelt name is reported before any file is read.
    measures = parse_measures(flags.measures) if flags.measures else ()
    rows = project_testset(
        folder, testset, split, dry_run=flags.dry_run, limit=flags.limit, seed=flags.seed
    )
    options = EvaluationOptions(
        resume=flags.resumes,
        retry_errors=flags.retry_errors,
        seed=flags.seed,
        answers=not retrieval_only,
        name=flags.name,
    )
    evaluation, run = do_work(
        flags,
        lambda bench: bench.forecast_evaluate(rows, measures, options, system=under_test),
        lambda bench: bench.evaluate(rows, measures, options, system=under_test),
    )
    show_evaluation(flags, evaluation, run.run, rows=rows.rows)
    return console.ended(run, is_trusted(evaluation))


def _system(address: str, version: str, retrieval_only: bool) -> UnderTest | None:
    """The system that ``--system`` names, opened; None for the project itself."""
    if not address:
        if version:
            raise ConfigError("--system-version needs --system", hint="name the system too")
        return None
    if retrieval_only:
        raise ConfigError(
            "--retrieval-only is for the project's own search",
            hint="leave it out, and name measures of rankings: --measures Recall@5,nDCG@5",
        )
    return open_system(read_system(address, version))


_ALONE = ("embed", "models", "judge.embedder", "judge.token_model")
"""Settings that mean something without a project."""


@takes(f"measures {MEASURING} with_rows")
def score_command(
    flags: Flags,
    rows: str | None = Argument(
        None, help="Rows (JSONL, JSON, CSV), or a run of the project: latest, its name."
    ),
    run: Path | None = Option(None, help="A TREC run, with --qrels."),
    qrels: Path | None = Option(None, help="TREC or BEIR judgments."),
) -> int:
    """Score given rows or stored answers.

    Nothing is generated.
    """
    check_output(flags.output)
    if run is not None or qrels is not None:
        _offline(flags, ranking=True)
        if run is None or qrels is None or rows is not None:
            raise ConfigError(
                "--run and --qrels go together, without rows",
                where="ragwright score",
                hint="write: ragwright score --run FILE --qrels FILE",
            )
        measures = ranking_measures(flags.measures)
        evaluation = score_run(
            read_run(run), read_qrels(qrels), measures, name=str(run), seed=flags.seed
        )
    elif rows is None:
        raise ConfigError(
            "there is nothing to score",
            where="ragwright score",
            hint="give a file of rows, a run, or --run and --qrels",
        )
    elif ProjectFolder(flags.project).opened:
        return _in_project(flags, rows)
    else:
        return _without_project(flags, rows)
    show_evaluation(flags, evaluation, "")
    return 0 if is_trusted(evaluation) else EXIT_UNTRUSTED


def _without_project(flags: Flags, rows: str) -> int:
    _offline(flags)
    settings = settings_without_file(flags.settings, _ALONE)
    setup = settings.judge
    if not setup.embedder:
        setup = replace(setup, embedder=settings.embed.model)
    models = Models(settings.models, settings.embed, Path())
    stop_if_dry(flags, lambda: forecast_rows(rows, flags.measures, setup, models=models))
    few: list[RowResult] = []
    each = take_few(flags, few)
    evaluation = evaluate(rows, flags.measures, setup, models=models, seed=flags.seed, each=each)
    show_evaluation(flags, evaluation, "", few=few)
    return 0 if is_trusted(evaluation) else EXIT_UNTRUSTED


def _offline(flags: Flags, *, ranking: bool = False) -> None:
    """Refuse flags that have no effect without a stored run, or without calls to a model."""
    values = {
        "--set": ranking and flags.overrides,
        "--max-cost": flags.overrides and flags.max_cost is not None,
        "--repeat": flags.repeat is not None,
        "--resume": flags.resume,
        "--name": flags.name,
    }
    useless = [flag for flag, value in values.items() if value]
    if useless:
        raise ConfigError(
            f"{', '.join(useless)}: only for runs that a project stores",
            where=str(flags.project.resolve()),
            hint="leave it out; or run `ragwright init` first, or give a project with --project",
        )


def _in_project(flags: Flags, rows: str) -> int:
    few: list[RowResult] = []
    options = EvaluationOptions(resume=flags.resume, seed=flags.seed, name=flags.name)
    say, each = partial(say_price, flags.console), take_few(flags, few)
    evaluation, run = do_work(
        flags,
        lambda bench: bench.forecast_score(rows, flags.measures),
        lambda bench: bench.score(rows, flags.measures, options, told=say, each=each),
    )
    show_evaluation(flags, evaluation, run.run, few=few)
    return flags.console.ended(run, is_trusted(evaluation))


@dataclass(frozen=True, slots=True)
class GateFlags:
    """The options of commands with gate rules."""

    baseline: str = Option("", help="Run or file to compare with.")
    floor: float = Option(
        0.95, min=0, max=1, help="Smallest share of rows with gold that must have a score."
    )
    sure: bool = Option(
        False, "--sure", help="Require the whole 95 % interval to meet each threshold."
    )
    calibrated: bool = Option(
        False,
        "--calibrated",
        help="Accept judged measures only if the judge agreed with people above chance.",
    )
    least: int = Option(10, min=1, help="Minimum number of scored rows for a decision.")
    cluster: str = Option("", help=f"With --baseline. {CLUSTER_HELP}")

    def gating(self, seed: int) -> PromotionGate:
        """Options of the gate."""
        options = GateOptions(self.floor, self.sure, self.calibrated, self.least)
        return PromotionGate(options, self.cluster, seed)


@takes("project as_json output seed")
def gate_command(
    flags: Flags,
    gate: GateFlags,
    run: str = Argument(help=RUN_HELP, show_default=False),
    rules: list[str] = Option(
        [], "--rule", help="nDCG@10>=0.7, or nDCG@10>=baseline-0.02 with --baseline; repeatable."
    ),
    markdown: bool = Option(
        False, "--markdown", help="Print the comment for a pull request instead of tables."
    ),
) -> int:
    """Check a run against rules, for CI.

    Exit code: 0 passed, 100 failed, 101 not trustworthy.
    """
    names = [name for name in (run, gate.baseline) if name]
    if not rules:
        raise BadParameter("give a rule such as 'nDCG@10>=0.7'", param_hint="--rule")
    evaluation, *others = open_results(flags.project, names, flags.seed)
    against = others[0] if others else None
    outcome = gate_evaluation(flags.project, evaluation, rules, gate.gating(flags.seed), against)
    if markdown:
        flags.console.result(gate_markdown(evaluation, outcome))
    else:
        _show(flags, evaluation, outcome)
    return gate_code(outcome)


def gate_code(outcome: GateOutcome) -> int:
    """The exit code of a gate's outcome."""
    return {"passed": 0, "failed": EXIT_FAILED}.get(outcome.state, EXIT_UNTRUSTED)


def _show(flags: Flags, evaluation: Evaluation, outcome: GateOutcome) -> None:
    console = flags.console
    if flags.output is not None and flags.output.suffix.lower() == ".xml":
        console.result(gate_junit(outcome).rstrip("\n"))
    else:
        weak = {"rows": make_plain(failing(evaluation.results, outcome))}
        wide = console.columns()
        tables = failing_text(evaluation.results, outcome, wide), gate_table(outcome, wide)
        console.show(
            lambda: {"run": evaluation.name, **gate_json(outcome), "failing": weak},
            lambda: "\n\n".join(filter(None, tables)),
        )


@takes("as_json output")
def measures_command(
    flags: Flags,
    name: str | None = Argument(None, help="Measure to show in full; without one, all are listed."),
) -> None:
    """List the measures and what each one needs.

    Each is shown with its fields, range, direction and source.
    """
    entries = definitions()
    if name is not None:
        plain = _plain(name)
        with suppress(MeasureError):  # `faithfulness` is a name of ragas, `Faithfulness` is ours
            own = read_declared_definition(parse_measure(name).definition)
            plain, entries = own.name.casefold(), tuple(dict.fromkeys((*entries, own)))
        entries = tuple(entry for entry in entries if entry.name.casefold() == plain)
        if not entries:
            raise unknown_measure(name.partition("@")[0].partition("(")[0])
    flags.console.show(
        lambda: {"measures": [{**asdict(entry), "form": entry.form} for entry in entries]},
        lambda: _table(entries) if name is None else _full(entries, _plain(name)),
    )


def _table(entries: tuple[Definition, ...]) -> str:
    rows = [["measure", "kind", "range", "needs", "model", "better"]]
    # without optional parameters, which `ragwright measures NAME` lists: one line for a name
    short = [re.sub(r"\[\([^)]*\)\]", "", entry.form) for entry in entries]
    rows += [
        [s, e.kind, _range(e), _needs(e), e.model, _direction(e)]
        for s, e in zip(short, entries, strict=True)
    ]
    return table(rows)


def _full(entries: tuple[Definition, ...], name: str) -> str:
    """Everything about some measures, and their names where ``name`` is one of ragas."""
    renamed = [entry.name for entry in entries if entry.name.casefold() != name]
    heads = [f"{name} of ragas is {own} here\n" for own in renamed]
    return "\n".join([*heads, "\n\n".join(map(_details, entries))])


def _plain(name: str) -> str:
    return name.partition("@")[0].partition("(")[0].casefold()


def _range(entry: Definition) -> str:
    return f"{entry.low:g} to {'any' if entry.high is None else f'{entry.high:g}'}"


def _direction(entry: Definition) -> str:
    return "higher" if entry.higher_is_better else "lower"


def _needs(entry: Definition) -> str:
    needs = ", ".join(entry.needs)
    return f"{needs} (or {', '.join(entry.instead)})" if entry.instead else needs


def _details(entry: Definition) -> str:
    facts = {
        "needs": f"{_needs(entry)}{'' if entry.model == 'none' else f'; model: {entry.model}'}",
        "source": entry.source,
        "without a parameter": entry.default,
        "install": f"pip install 'ragwright[{entry.extra}]'" if entry.extra else "",
        "validated against": entry.validated,
    }
    head = f"{entry.form}   ({_range(entry)}, {_direction(entry)} is better)"
    lines = [f"{name}: {text}" for name, text in facts.items() if text or name == "needs"]
    return "\n".join([head, textwrap.fill(entry.summary, 96), *lines])
