"""`ragwright sweep`."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

from typer import Argument, Option

from ..core import ConfigError
from ..experiment import (
    AblationOptions,
    BaselineOptions,
    ConfirmOptions,
    DiagnosisOptions,
    GridOptions,
    Stage,
    StudyVerdict,
    SweepOptions,
    SweepResult,
    TrialResult,
    plan_ablation,
    read_study,
)
from ..project import ProjectFolder
from ..report import (
    ablation_json,
    ablation_table,
    baseline_json,
    baseline_table,
    diagnosis_json,
    diagnosis_table,
    generators_json,
    generators_table,
    leaderboard_block,
    print_result,
    run_diagnosis_json,
    run_diagnosis_table,
    trial_json,
    verdict_json,
    verdict_table,
)
from ..testsets import Testset, project_testset
from ._console import EXIT_UNTRUSTED, Console, fail
from ._flags import MEASURING, WORK, Flags, names_of, takes
from ._show import do_work, show_progress, stop_if_dry


@takes("project overrides as_json quiet output retry_errors no_cache jobs max_cost resume dry_run")
def sweep_command(
    flags: Flags, study: Path = Argument(help="Study file: ragwright.yaml with lists.")
) -> int:
    """Try the settings of a study and rank them.

    Every combination runs on the tune split; each result has an interval.
    """
    # --resume changes nothing: a sweep always continues an unfinished one of the same study
    console = flags.console
    with flags.open() as bench:
        plan = read_study(bench.project, study)
        stop_if_dry(flags, lambda: bench.forecast_sweep(plan))
        ended: list[TrialResult] = []
        trials = (plan.size or plan.options.trials) + 1
        with show_progress(console, bench, lambda: (len(ended), trials, "trials")):
            result = bench.sweep(plan, SweepOptions(flags.retry_errors, ended.append))
        _show(console, result, flags.as_json)
        if result.stopped is not None:
            fail(result.stopped)
            return EXIT_UNTRUSTED
        return 0 if result.board else EXIT_UNTRUSTED


def _show(console: Console, result: SweepResult, as_json: bool) -> None:
    board = result.board
    placed = {trial.number for trial in board}
    ranked = {trial.number for trial in result.judged_by_first}
    unscored = f"no row has a score for {result.objective}"
    rest = [
        trial
        if trial.state != "done"
        else replace(trial, reason=(f"{unscored}: {trial.reason}" if trial.reason else unscored))
        for trial in result.trials
        if trial.number not in placed and trial.number in ranked
    ]
    if as_json:
        console.json(
            {
                "run": result.run,
                "testset": result.testset,
                "objective": str(result.objective),
                "trials": [trial_json(trial) for trial in (*board, *rest)],
                "selection": None if result.selection is None else asdict(result.selection),
                "notes": list(result.notes),
            }
        )
        return
    block = leaderboard_block(board, rest=rest, objective=str(result.objective))
    sentences = []
    if result.selection is not None:
        sentences.append(StudyVerdict(result.selection).text)
        if result.selection.difference > 0:
            confirm = f"ragwright confirm {result.run}"
            sentences.append(f"to confirm it on held-out questions: {confirm}")
    notes = [*result.notes, *_other_judges(result)]
    console.result(
        print_result(sentences, [block], run=result.run, notes=notes, width=console.columns(120))
    )


def _other_judges(result: SweepResult) -> list[str]:
    first = [trial.values for trial in result.board if trial.values]
    keys = {axis.key for axis in result.study.judging}
    lines = []
    for judge, board in result.by_judge.items():
        best = next((trial for trial in board if trial.values), None)
        text = "no trial has results"
        if best is not None:
            plain = {key: value for key, value in best.values.items() if key not in keys}
            places = [at for at, v in enumerate(first, 1) if plain.items() <= v.items()]
            rank = f"number {places[0]} above" if places else "not in the table above"
            text = f"{best.id} is best ({rank}); judges are not comparable"
        lines.append(f"by {judge}: {text}")
    return lines


@takes("cluster project overrides as_json quiet output jobs max_cost dry_run")
def confirm_command(
    flags: Flags,
    sweep: str = Argument("latest", help="Sweep: its run, the name of its study, or latest."),
    top: int = Option(1, min=1, help="Number of the best trials to confirm."),
) -> None:
    """Test a sweep's winner on held-out questions.

    It is compared with the current settings.
    """
    console = flags.console
    options = ConfirmOptions(top, flags.cluster)
    confirmed = do_work(
        flags,
        lambda bench: bench.forecast_confirm(sweep, options, console.remark),
        lambda bench: bench.confirm(sweep, options, told=console.remark),
    )
    if confirmed.overrides:
        settings = " ".join(f"--set {setting}" for setting in confirmed.overrides)
        console.remark(f"as in the sweep: {settings}")
    if confirmed.again and not flags.as_json:
        console.remark(
            "already confirmed: the stored result is shown; the confirm split stays closed"
        )
    console.show(
        lambda: verdict_json(confirmed.verdict, confirmed.run),
        lambda: verdict_table(confirmed.verdict, confirmed.run, console.columns()),
    )


@takes(f"measures cluster limit retry_errors {WORK} output name")
def ablate_command(
    flags: Flags,
    testset: str = Option(
        help="Testset; effects are measured on its tune split.", show_default=False
    ),
    presets: str = Option(
        "", help="Presets: all, a8 (the sixteen published ones), or names separated by commas."
    ),
    leave_one_out: bool = Option(
        False, "--leave-one-out", help="Leave out each part alone (the default)."
    ),
    parts: str = Option("", help="Leave out only these parts; all by default."),
    personas: str = Option("", help="Personas for every question; by default those of the rows."),
    margin: float = Option(
        0.05, help="Largest loss that a deletion may cause, as a share of a measure's scale."
    ),
    confirm: bool = Option(
        False, "--confirm", help="Confirm what is safe to delete on the held-out split, once."
    ),
) -> int:
    """Measure what each part of the prompt does.

    It shows what each part costs, too, and which ones can be deleted.
    """
    options = AblationOptions(
        presets=names_of(presets),
        leave_one_out=leave_one_out,
        parts=names_of(parts),
        personas=names_of(personas),
        margin=margin,
        clusters=flags.cluster,
        limit=flags.limit,
        seed=flags.seed,
        confirm=confirm,
        retry_errors=flags.retry_errors,
        name=flags.name,
    )
    console = flags.console
    ended: list[TrialResult] = []
    # It always goes on where an unfinished one of the same kind stopped, with --resume or without.
    with flags.open(replace(flags.session, attempt=int(flags.retry_errors))) as bench:
        stop_if_dry(flags, lambda: bench.forecast_ablate(testset, flags.measures, options))
        total = len(plan_ablation(bench.project, testset, flags.measures, options).points) + 1
        with show_progress(console, bench, lambda: (len(ended), total, "prompts")):
            options = replace(options, on_trial=ended.append)
            result = bench.ablate(testset, flags.measures, options)
    found, run = result.ablation, result.run
    console.show(
        lambda: ablation_json(found, run=run, sweep=result.sweep.run),
        lambda: ablation_table(found, run=run, width=console.columns(140)),
    )
    if result.again:
        console.remark("already confirmed: shown again, the confirm split was not opened")
    if result.stopped is not None:
        fail(result.stopped)
        return EXIT_UNTRUSTED
    return 0 if result.ablation.scored else EXIT_UNTRUSTED


@takes(f"{WORK} output name")
def baseline_command(
    flags: Flags,
    testset: str = Option(help="Pairs: rows with a question, its answer and its chunk."),
    context: bool = Option(
        False, "--context", help="Also answer from the pair's own chunk, and without it."
    ),
    margin: float = Option(
        0.1,
        min=0.0,
        max=1.0,
        help="Largest change that counts as equal: a share of the way from the pairs' own answers "
        "to shuffled ones.",
    ),
) -> int:
    """Compare distances of answers with given pairs.

    The distances between questions and answers are smaller, equal or larger.

    An embedding model is needed: embed.model, or judge.embedder for the distances alone.

    --set is what the experiment changes: chunker, embedding model, chat model, prompt. -o
    FILE.jsonl writes every pair with its vectors and its distance.
    """
    console = flags.console
    ProjectFolder(flags.project).require()
    options = BaselineOptions(
        flags.settings, context, margin, resume=flags.resume, name=flags.name, seed=flags.seed
    )
    with flags.open(replace(flags.session, overrides=())) as bench:
        if flags.dry_run:
            forecast, notes = bench.forecast_baseline(testset, options)
            for note in notes:
                console.remark(f"note: {note}")
            stop_if_dry(flags, lambda: forecast)
        with show_progress(console, bench):
            baseline = bench.baseline(testset, options)
    if flags.output is not None and flags.output.suffix == ".jsonl":
        lines = (json.dumps(pair.body(), ensure_ascii=False) for pair in baseline.pairs)
        console.result("\n".join(lines))
    else:
        console.show(
            lambda: baseline_json(baseline), lambda: baseline_table(baseline, console.columns())
        )
    return 0


@takes(f"measures cluster retry_errors {MEASURING}")
def diagnose_command(
    flags: Flags,
    testset: str = Option("", help="beir:DIR/SPLIT, or a file of rows.", show_default=False),
    run: str = Option(
        "",
        help="Instead of a testset: a stored run, also of another system; tells retrieval from "
        "answering and makes no calls.",
    ),
    stages: str = Option(
        "",
        help="Comma-separated stages: filter, retrieve, rerank, truncate, generate, judge; "
        "all by default.",
    ),
    models: str = Option(
        "",
        "--compare-models",
        help="Instead of stages: find the best of these generators for each persona.",
    ),
    personas: str = Option(
        "", help="Instead of stages: find the personas whose answers lose facts."
    ),
    split: str = Option("", help="tune, confirm or all; tune by default where rows name splits."),
) -> int:
    """Find the stage that loses points.

    Each stage is replaced by a perfect one in turn.
    """
    folder = ProjectFolder(flags.project).require()
    if bool(run) == bool(testset):
        raise ConfigError(
            "give either --testset or --run",
            where="ragwright diagnose",
            hint="--testset FILE answers its questions with every stage replaced in turn; --run "
            "latest splits the rows of a stored run",
        )
    of_stages: dict[str, object] = {"--stages": stages, "--cluster": flags.cluster}
    of_grids = {"--compare-models": models, "--personas": personas}
    if run:
        further = {
            "--measures": flags.measures,
            "--split": split,
            "--retry-errors": flags.retry_errors,
        }
        of_stages |= of_grids | further
        _refuse("--run, which reads stored answers and passages", of_stages)
        return _of_run(flags, run)
    read = project_testset(folder, testset, split, purpose="diagnose", dry_run=flags.dry_run)
    if models or personas:
        _refuse("--compare-models or --personas", {**of_stages, "--by": flags.by})
        return _compare(flags, read, names_of(personas), names_of(models))
    return _of_testset(flags, read, names_of(stages))


def _refuse(what: str, values: dict[str, object]) -> None:
    useless = [flag for flag, value in values.items() if value]
    if useless:
        raise ConfigError(
            f"{', '.join(useless)}: not used with {what}",
            where="ragwright diagnose",
            hint="leave it out, or diagnose the stages of a testset",
        )


def _of_testset(flags: Flags, testset: Testset, stages: tuple[str, ...]) -> int:
    console = flags.console
    options = DiagnosisOptions(
        cast("tuple[Stage, ...]", stages),
        flags.by or (),
        cluster=flags.cluster,
        resume=flags.resumes,
        retry_errors=flags.retry_errors,
        seed=flags.seed,
        name=flags.name,
    )
    diagnosis, run = do_work(
        flags,
        lambda bench: bench.forecast_diagnose(testset, flags.measures, options),
        lambda bench: bench.diagnose(testset, flags.measures, options),
    )
    console.show(
        lambda: diagnosis_json(diagnosis, run=run.run),
        lambda: diagnosis_table(diagnosis, run=run.run, width=console.columns()),
    )
    return console.ended(run, bool(diagnosis.rows))


def _of_run(flags: Flags, run: str) -> int:
    console = flags.console
    with flags.open() as bench:
        diagnosis = bench.diagnose_run(run, flags.by or ())
    console.show(
        lambda: run_diagnosis_json(diagnosis),
        lambda: run_diagnosis_table(diagnosis, width=console.columns()),
    )
    return 0


def _compare(
    flags: Flags, testset: Testset, personas: tuple[str, ...], models: tuple[str, ...]
) -> int:
    console = flags.console
    options = GridOptions(
        personas,
        models,
        resume=flags.resumes,
        retry_errors=flags.retry_errors,
        seed=flags.seed,
        name=flags.name,
    )
    grid, run = do_work(
        flags,
        lambda bench: bench.forecast_generators(testset, flags.measures, options),
        lambda bench: bench.compare_generators(testset, flags.measures, options),
    )
    console.show(
        lambda: generators_json(grid, run=run.run),
        lambda: generators_table(grid, run=run.run, width=console.columns()),
    )
    return console.ended(run, True)
