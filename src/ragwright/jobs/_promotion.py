"""Promotion: serve the configuration of a run if the run passes its gate."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from .. import __version__
from ..core import (
    ConfigError,
    StoreDamagedError,
    StoreError,
    TestsetError,
    count_noun,
    list_names,
    replacing,
)
from ..experiment import (
    Evaluation,
    clusters_of_results,
    compare_evaluations,
    find_run,
    grounds,
    judge_checks,
    load_evaluation,
    read_results,
)
from ..ledger import SharedPlace, WorkLock, copy_database, file_error
from ..measure import GateOptions, GateOutcome, JudgeCheck, gate, parse_measure
from ..project import (
    Change,
    Configuration,
    Project,
    ProjectFolder,
    Served,
    Settings,
    list_changed_files,
    load_settings,
    not_reproducible,
    run_configuration,
)
from ..report import gate_json
from ._audit_log import utc_now


@dataclass(frozen=True, slots=True)
class PromotionGate:
    """Settings of a gate.

    Attributes:
        options: Requirements on the numbers.
        cluster: Rows that share it are not independent; see ``clusters_of_results``.
        seed: Seed of intervals and tests.
    """

    options: GateOptions = field(default_factory=GateOptions)
    cluster: str = ""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class PromotionOptions:
    """Settings of a promotion.

    Attributes:
        gating: Settings of the gate.
        baseline: Run or file of scores to compare with; by default the run of the served
            configuration.
        rules_alone: Only the given rules count, even if a configuration is served.
        reason: Why, for the history.
        by: User; by default the user of this machine.
        dry_run: Report the gate's outcome, and change nothing.
    """

    gating: PromotionGate = field(default_factory=PromotionGate)
    baseline: str = ""
    rules_alone: bool = False
    reason: str = ""
    by: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class PromotionResult:
    """The result of a promotion.

    Attributes:
        run: The run.
        outcome: Outcome of the gate.
        served: The served configuration, None if there is none.
        changed: True if this call changed it.
        baseline: The run it was compared with, empty if there was none.
        notes: Notes for the user.
    """

    run: str
    outcome: GateOutcome
    served: Change | None
    changed: bool
    baseline: str = ""
    notes: tuple[str, ...] = ()


def gate_evaluation(
    root: Path,
    evaluation: Evaluation,
    rules: Sequence[str],
    gating: PromotionGate | None = None,
    baseline: Evaluation | None = None,
) -> GateOutcome:
    """Apply rules to an evaluation; the passports of its judges are read.

    Raises:
        MeasureError: No rule, or one that cannot be read; or the two share no row or measure.
        TestsetError: The two were measured on different questions or scales.
    """
    gating = gating or PromotionGate()
    against = None
    if baseline is not None:
        both = [*baseline.results, *evaluation.results]
        clusters = clusters_of_results(both, gating.cluster)
        against = compare_evaluations(baseline, evaluation, seed=gating.seed, clusters=clusters)
    checked: Mapping[str, JudgeCheck] = {}
    try:
        checked = judge_checks(root, evaluation)
    except TestsetError:
        if gating.options.calibrated:
            raise
    outcome = gate(evaluation.summaries, rules, gating.options, against=against, checked=checked)
    judged = dict.fromkeys(check.measure for check in outcome.checks)
    named = [checked[name].passport for name in judged if name in checked]
    current = () if baseline is None else baseline.summaries
    return replace(
        outcome, notes=(*outcome.notes, *filter(None, named), *grounds(evaluation.results, current))
    )


def promote(
    project: Project, run: str, rules: Sequence[str] = (), promoting: PromotionOptions | None = None
) -> PromotionResult:
    """Serve the configuration of a run if the gate passes.

    If a configuration is served already, the run is compared with that configuration's run: unless
    rules name a baseline, it must be proven not worse by every measure of that run. If no
    configuration is served yet, only the rules count. A concurrent promotion waits, and is then
    compared with the first one.

    Raises:
        ConfigError: The configuration of the run is unknown, its files have changed since (the
            error lists them), it did not end, or there is no rule.
        StoreError: The run does not exist, or the served configuration cannot be changed.
        StoreBusyError: Another process changes it for longer than half a minute; the message names
            it.
    """
    promoting = promoting or PromotionOptions()
    name = find_run(project.runs, run)
    configuration = _reproducible(project, name)
    served = Served(project.folder)
    with served.changing(f"promote {name}"):
        now = served.current()
        baseline, notes = _baseline(project, promoting, now)
        evaluation = _results(project, name)
        wanted = _rules(rules, baseline, promoting)
        outcome = gate_evaluation(
            project.folder.root, evaluation, wanted, promoting.gating, baseline
        )
        notes += _notes(evaluation, baseline)
        against = "" if baseline is None else baseline.name
        if outcome.state != "passed" or promoting.dry_run:
            return PromotionResult(name, outcome, now, False, against, notes)
        if now is not None and now.configuration == configuration.hash:
            notes += (f"this configuration is served already, as number {now.number}",)
            return PromotionResult(name, outcome, now, False, against, notes)
        change = Change(
            number=0,
            replaced=None,
            action="promote",
            at="",
            by=promoting.by,
            configuration="",
            run=name,
            reason=promoting.reason,
            gate=gate_json(outcome),
            baseline=against,
        )
        change = served.promote(configuration, change)
    return PromotionResult(name, outcome, change, True, against, notes)


def promote_back(project: Project, reason: str, by: str = "") -> Change:
    """Serve the configuration that the present one replaced.

    Raises:
        ConfigError: No reason is given, or there is none before it.
        StoreError: It is missing or has been changed.
        StoreBusyError: As :func:`promote`.
    """
    if not reason.strip():
        raise ConfigError(
            "--back needs a reason", where="--reason", hint="it is stored in the history"
        )
    served = Served(project.folder)
    with served.changing("promote --back"):
        return served.back(reason, by)


def _reproducible(project: Project, run: str) -> Configuration:
    """Return the configuration of a run that ended and whose files are unchanged."""
    state = project.runs.get(run).state
    if state != "complete":
        raise ConfigError(
            f"the run {run} did not end: {state}",
            where=run,
            hint="finish it with --resume, then promote it",
        )
    configuration = run_configuration(project.runs, run)
    wrong = list_changed_files(project.folder.parts, configuration)
    if wrong:
        raise not_reproducible(run, wrong)
    # a configuration that this version cannot read is reported
    load_settings(project.folder.file, served=configuration.sections)
    return configuration


def _baseline(
    project: Project, promoting: PromotionOptions, now: Change | None
) -> tuple[Evaluation | None, tuple[str, ...]]:
    """Return the baseline: the named one, else the run of the served configuration."""
    if promoting.baseline:
        if Path(promoting.baseline).is_file():
            return read_results(promoting.baseline, seed=promoting.gating.seed), ()
        return _results(project, promoting.baseline), ()
    if now is None:
        return None, ("no configuration is served yet: only the rules count",)
    if promoting.rules_alone:
        return None, ("not compared with the served configuration",)
    if not project.runs.holds(now.run):
        raise StoreError(
            f"the run {now.run}, by which configuration {now.number} was promoted, is gone",
            hint="evaluate the served configuration with `ragwright eval --served` and give that "
            "run as --baseline, or pass --rules-alone",
        )
    return _results(project, now.run), ()


def _results(project: Project, run: str) -> Evaluation:
    return load_evaluation(project.runs, run, project.session.seed)


def _rules(
    rules: Sequence[str], baseline: Evaluation | None, promoting: PromotionOptions
) -> list[str]:
    """Return the rules; without a baseline rule, each measure gets a not-worse rule."""
    wanted = list(rules)
    if baseline is not None and not any("baseline" in rule.lower() for rule in wanted):
        for summary in baseline.summaries:
            upward = parse_measure(summary.measure).definition.higher_is_better
            wanted.append(f"{summary.measure}{'>=' if upward else '<='}baseline")
    if not wanted:
        raise ConfigError(
            "no rules to check the run with",
            where="--gate",
            hint="no configuration is served yet, or --rules-alone is given: give a rule, for "
            "example --gate 'nDCG@10>=0.7'",
        )
    return wanted


def _notes(evaluation: Evaluation, baseline: Evaluation | None) -> tuple[str, ...]:
    manifest = evaluation.manifest
    notes = []
    if "retrieve" in manifest and "answer" not in manifest:
        notes.append("the run scored only retrieval: answers were not measured")
    if baseline is not None:
        for key, name in (("rows", "testset"), ("snapshot", "state of the index")):
            here, there = manifest.get(key), baseline.manifest.get(key)
            if here and there and here != there:
                notes.append(f"the baseline was measured on another {name}")
    return tuple(notes)


MANIFEST = ".ragwright/backup.json"
"""The file of an archive that lists the others with their SHA-256, and what was left out."""

_LEFT = frozenset({".git", ".hg", ".venv", "venv", "node_modules", "__pycache__"})
_LOGS = ("-wal", "-shm", "-journal")
_SQLITE = b"SQLite format 3\x00"
_BLOCK = 1 << 20
_WAIT_SECONDS = 30.0


def back_up_project(folder: ProjectFolder, settings: Settings, target: Path) -> dict[str, Any]:
    """Write a project to a zip archive with mode 0600, while nobody else works on it.

    Returns:
        The manifest: ``ragwright``, ``at``, ``files`` (name -> SHA-256), ``left_out`` (-> why).

    Raises:
        ConfigError: There is such a file.
        StoreBusyError: Others work on the project and do not end.
        StoreError: A file cannot be read, or the archive cannot be written; then there is none.
    """
    if target.exists():
        raise ConfigError("this file exists already", where=str(target), hint="choose another name")
    files: dict[str, str] = {}
    left_out = dict(_kept_elsewhere(folder, settings))
    manifest = {"ragwright": __version__, "at": utc_now(), "files": files, "left_out": left_out}
    hint = "end other work on the project, then back it up again"
    try:
        with WorkLock(folder.data / "work").exclusive("backup", wait=_WAIT_SECONDS, hint=hint):
            paths = [path for path in _files(folder, left_out) if path != target.absolute()]
            with (
                tempfile.TemporaryDirectory(
                    prefix=".backup-", dir=target.absolute().parent
                ) as aside,
                replacing(target, private=True, fresh=True) as file,
                zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
            ):
                for path in paths:
                    name = path.relative_to(folder.root.absolute()).as_posix()
                    info = zipfile.ZipInfo.from_file(path, name, strict_timestamps=False)
                    info.compress_type = zipfile.ZIP_DEFLATED
                    whole = _whole_file(path, Path(aside) / "copy")
                    with (
                        whole.open("rb") as source,
                        archive.open(info, "w", force_zip64=True) as to,
                    ):
                        files[name] = _digest(source, to)
                archive.writestr(MANIFEST, json.dumps(manifest, ensure_ascii=False, indent=1))
    except OSError as error:
        raise file_error(error, target) from error
    return manifest


def check_backup(file: Path) -> dict[str, Any]:
    """Compare every file of an archive with its checksum; returns the manifest.

    Raises:
        StoreDamagedError: It is not a backup, or a file in it is damaged, missing or extra.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            manifest: dict[str, Any] = json.loads(archive.read(MANIFEST))
            names, known = {*archive.namelist()} - {MANIFEST}, manifest["files"]
            wrong = names ^ known.keys()
            for name in names & known.keys():
                with archive.open(name) as member:
                    wrong |= {name} if _digest(member) != known[name] else set()
    except FileNotFoundError as error:
        raise StoreError("no such file", where=str(file), hint="check the path") from error
    except (
        OSError,
        RuntimeError,
        ValueError,
        LookupError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise StoreDamagedError(
            f"this is not a ragwright backup, or it is damaged: {error}",
            where=str(file),
            hint="use another backup",
        ) from error
    if wrong:
        raise StoreDamagedError(
            f"{count_noun(len(wrong), 'file')} of the backup damaged, missing or added: "
            f"{list_names(sorted(wrong), 3)}",
            where=str(file),
            hint="use another backup",
        )
    return manifest


def _kept_elsewhere(folder: ProjectFolder, settings: Settings) -> Iterator[tuple[str, str]]:
    shared, store = settings.shared.place(folder.ledger), settings.store.path
    if isinstance(shared, SharedPlace):
        command = f"pg_dump -n '{shared.schema}_*' DATABASE > shared.sql"
        yield shared.address, f"the shared database: {command}"
    inside = (folder.root / store).resolve().is_relative_to(folder.root.resolve())
    if "://" in store or not inside:
        yield store, "the store is not in the project folder: copy it with its own tools"
    yield ".ragwright/cache", "views are built again, replies of models are paid for again"


def _files(folder: ProjectFolder, left_out: dict[str, str]) -> Iterator[Path]:
    root, data = folder.root.absolute(), folder.data.absolute()
    for place, folders, names in os.walk(root):
        here = Path(place)
        for path in (here / name for name in (*folders, *names)):
            if path.is_symlink():
                left_out[path.relative_to(root).as_posix()] = "a link"
        inner = (
            name for name in folders if name not in _LEFT and here / name != data.parent / "cache"
        )
        folders[:] = sorted(name for name in inner if not (here / name).is_symlink())
        for path in (here / name for name in sorted(names)):
            log = any(
                Path(f"{path}".removesuffix(end)).is_file()
                for end in _LOGS
                if f"{path}".endswith(end)
            )
            mark = path.parent == data / "work" and path.name != "erasures"
            lock = path.is_relative_to(data) and (path.name == "lock" or path.suffix == ".lock")
            if path.is_file() and not (
                path.is_symlink() or log or mark or lock or path == root / MANIFEST
            ):
                yield path


def _whole_file(path: Path, copy: Path) -> Path:
    """The file; for a database a copy of it by SQLite, its log included."""
    with path.open("rb") as file:
        if file.read(len(_SQLITE)) != _SQLITE:
            return path
    copy_database(path, copy)
    return copy


def _digest(source: IO[bytes], to: IO[bytes] | None = None) -> str:
    """SHA-256 of a file, which is copied if ``to`` is given."""
    digest = hashlib.sha256()
    while block := source.read(_BLOCK):
        digest.update(block)
        if to is not None:
            to.write(block)
    return digest.hexdigest()
