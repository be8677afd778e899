"""Audits of a project: stored runs of findings, compared with earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..core import ConfigError, counted, replace_text
from ..experiment import RunOptions, judging, named_run
from ..flow import Flow, Forecast, Job, Run, Runs, RunSummary
from ..measure import MeasureSetup
from ..project import Project, at_work
from ._gate import AuditGate, require_kinds
from ._judge import judged_finding
from ._options import AuditOptions, check_kinds
from ._reach import out_of_reach
from ._records import KINDS, Audit, Finding, finding_body, finding_of, ranked_findings
from ._scan import scan_documents

KIND = "audit"
_RULES = 3
"""Version of the rules: audits of different ones are not resumed."""


@dataclass(frozen=True, slots=True)
class Auditing(RunOptions):
    """Options of an audit.

    Attributes:
        kinds: Kinds to look for; those of the settings, else all, if empty.
        every: Also show findings of rules that are often wrong.
        since: Show only findings that an earlier audit does not have: its run, its name, the
            snapshot that it read, or ``latest``.
        testset: Address of a test set, for passages that none of its questions finds.
        judge: Let the judge model decide on pairs of alike statements: contradictions.
        gate: Rules that :func:`check_audit` will apply: one on a kind that is not looked for is
            refused before the documents are read.
    """

    kinds: tuple[str, ...] = ()
    every: bool = False
    since: str = ""
    testset: str = ""
    judge: bool = False
    gate: tuple[AuditGate, ...] = ()


@dataclass(frozen=True, slots=True)
class _Work:
    """The findings of an audit before they are judged, and the job that stores them."""

    audit: Audit
    manifest: Mapping[str, Any]
    items: Sequence[tuple[str, Callable[[], Flow[Finding]]]]


@at_work(KIND)
def run_audit(project: Project, options: Auditing) -> tuple[Audit, RunSummary]:
    """Read the documents of the index, gather what is wrong with them, and store it as a run.

    Without ``judge`` nothing is paid.

    Raises:
        RetrieveError: Nothing has been ingested.
        ConfigError: A kind is unknown or lacks what it needs, no earlier audit exists, or the gate
            has a rule on a kind that is not looked for.
    """
    earlier = _earlier(project.runs, options.since) if options.since else None
    work = _audit_work(project, options)
    job = Job(
        kind=KIND,
        manifest=work.manifest,
        items=work.items,
        encode=finding_body,
        sources=lambda finding: tuple({place.document_id for place in finding.places}),
    )
    summary = named_run(project.runner, project.runs, job, options)
    audit = replace(work.audit, run=summary.run)
    findings, errors = _stored_findings(project.runs, summary.run)
    if errors:
        more = f" and {len(errors) - 1} more" if len(errors) > 1 else ""
        audit = replace(audit, notes=(*audit.notes, f"not judged: {errors[0]}{more}"))
    return _shown(project, audit, findings, options, earlier), summary


def forecast_audit(project: Project, options: Auditing) -> Forecast:
    """Forecast the calls and cost of the judge; the documents are really read."""
    work = _audit_work(project, options, search=False)
    return project.runner.forecast(make for _, make in work.items)


def stored_audit(project: Project, run: str = "latest", *, every: bool = False) -> Audit:
    """A stored audit again, as it is shown: ``latest``, its id or name, or its snapshot.

    Raises:
        ConfigError: There is none.
    """
    stored = _earlier(project.runs, run)
    findings, _ = _stored_findings(project.runs, stored.id)
    audit = Audit(
        (), tuple(stored.manifest["kinds"]), str(stored.manifest["snapshot"]), run=stored.id
    )
    return _shown(project, audit, findings, Auditing(every=every), None)


def known_audits(project: Project) -> tuple[Run, ...]:
    """Stored audits, newest first."""
    return tuple(sorted(project.runs.list(KIND), key=lambda run: run.started, reverse=True))


def dismiss(project: Project, finding: str, reason: str) -> Path:
    """Dismiss a finding: later audits do not show it. Returns the file, meant to be committed.

    Raises:
        ConfigError: No stored audit has a finding of this id, or there is no reason.
    """
    if not reason.strip():
        raise ConfigError("a dismissal needs a reason", where="--dismiss", hint="add --why TEXT")
    known: set[str] = set()
    for run in known_audits(project):
        known.update(row.id for row in project.runs.rows(run.id))
    if finding not in known:
        raise ConfigError(
            f"no stored audit has the finding {finding!r}",
            where="--dismiss",
            hint="its id is in brackets in the table, and `id` in the JSON"
            if known
            else "run `ragwright audit` first",
        )
    path = _dismissed_file(project)
    before = path.read_text("utf-8") if path.is_file() else ""
    if finding not in _dismissed(project):
        replace_text(path, f"{before}{finding}  {' '.join(reason.split())}\n")
    return path


def _audit_work(project: Project, options: Auditing, *, search: bool = True) -> _Work:
    """Read the documents, search unless it is a forecast, and plan what is left to judge."""
    settings: AuditOptions = project.settings.section("audit")
    setup = judging(project)
    kinds, notes = _kinds_for(options, settings, setup)
    require_kinds(options.gate, kinds)
    snapshot = project.target().snapshot  # raises with a hint if nothing is indexed
    root = project.folder.root
    scan = scan_documents(
        project.documents,
        project.store.document,
        settings,
        kinds,
        lambda path: (root / path).exists(),
    )
    findings = list(scan.findings)
    if search and "reach" in kinds:
        findings += out_of_reach(project, scan.corpus, options.testset, settings.reach_depth)
    ranked = ranked_findings(findings)
    audit = Audit(
        (),
        kinds,
        snapshot,
        len(scan.corpus.briefs),
        scan.pages,
        scan.characters,
        notes=(*project.partial_note(), *notes),
        since=options.since,
    )
    items = [(finding.id, partial(_settled, finding, setup)) for finding in ranked]
    manifest = {
        "rules": _RULES,
        "snapshot": snapshot,
        "kinds": list(kinds),
        "settings": {key: value for key, value in asdict(settings).items() if key != "dismissed"},
        "judge": setup.model if options.judge else "",
        "testset": options.testset,
        "seed": options.seed,
    }
    return _Work(audit, manifest, items)


def _kinds_for(
    options: Auditing, settings: AuditOptions, setup: MeasureSetup
) -> tuple[tuple[str, ...], list[str]]:
    """The kinds to look for, and notes on those that lack what they need.

    Raises:
        ConfigError: A kind is unknown, or there is no chat model to judge.
    """
    check_kinds(options.kinds, "--kinds")
    if options.judge and not setup.model:
        raise ConfigError(
            "no chat model can judge contradictions",
            where="--judge",
            hint="name one: --set judge.model=MODEL",
        )
    wanted = options.kinds or settings.kinds or KINDS
    lacking = {
        "contradictions": "" if options.judge else "--judge",
        "reach": "" if options.testset else "--testset T",
    }
    notes = [
        f"not looked for: {kind}, since it needs {flag}"
        for kind, flag in lacking.items()
        if flag and kind in options.kinds
    ]
    return tuple(k for k in KINDS if k in wanted and not lacking.get(k)), notes


def _settled(finding: Finding, setup: MeasureSetup) -> Flow[Finding]:
    """A finding as it is stored: a pair of statements with its verdict, another one as it is."""
    if finding.kind == "contradictions":
        return (yield from judged_finding(finding, setup))
    return finding


def _stored_findings(runs: Runs, run: str) -> tuple[list[Finding], list[str]]:
    """Findings of a run, and the reasons why rows have none; unconfirmed pairs are no findings."""
    findings, errors = [], []
    for row in runs.rows(run):
        if row.state == "done":
            finding = finding_of(row.body)
            if finding.sure or finding.kind != "contradictions":
                findings.append(finding)
            elif finding.verdict.startswith("not judged"):
                errors.append(finding.verdict.removeprefix("not judged: "))
        else:
            errors.append(f"{row.id} {row.state}: {row.body.get('what', 'not reached')}")
    return findings, errors


def _shown(
    project: Project,
    audit: Audit,
    findings: Sequence[Finding],
    options: Auditing,
    since: Run | None,
) -> Audit:
    """An audit with the findings to be shown; the others are counted."""
    dismissed = _dismissed(project)
    open_ones = [finding for finding in findings if finding.id not in dismissed]
    visible = [finding for finding in open_ones if finding.sure or options.every]
    known = {row.id for row in project.runs.rows(since.id)} if since else set()
    fresh = [finding for finding in visible if finding.id not in known]
    notes = list(audit.notes)
    if since is not None and set(audit.kinds) - set(since.manifest["kinds"]):
        missing = ", ".join(sorted(set(audit.kinds) - set(since.manifest["kinds"])))
        notes.append(f"the earlier audit did not look for {missing}: all of these are new")
    return replace(
        audit,
        findings=ranked_findings(fresh),
        hidden=len(open_ones) - len(visible),
        dismissed=len(findings) - len(open_ones),
        known=len(visible) - len(fresh),
        notes=tuple(notes),
    )


def _earlier(runs: Runs, name: str) -> Run:
    """A stored audit by run, name, snapshot or the beginning of one; ``latest`` is the newest.

    Raises:
        ConfigError: There is none.
    """
    audits = sorted(runs.list(KIND), key=lambda run: run.started, reverse=True)
    ended = [run for run in audits if run.state == "complete"] or audits
    for run in ended:
        snapshot = str(run.manifest["snapshot"])
        if name in ("latest", run.name) or run.id.startswith(name) or snapshot.startswith(name):
            return run
    listed = ", ".join(dict.fromkeys(str(run.manifest["snapshot"]) for run in ended[:5]))
    raise ConfigError(
        f"there is no audit of {name!r}",
        where="--since",
        hint=f"{counted(len(ended), 'audit')}, of the snapshots {listed}"
        if ended
        else "run `ragwright audit` before the change, then again with --since latest",
    )


def _dismissed_file(project: Project) -> Path:
    options: AuditOptions = project.settings.section("audit")
    return project.folder.root / options.dismissed


def _dismissed(project: Project) -> frozenset[str]:
    """Ids of the dismissed findings: the first word of each line."""
    path = _dismissed_file(project)
    if not path.is_file():
        return frozenset()
    lines = path.read_text("utf-8").splitlines()
    return frozenset(line.split()[0] for line in lines if line.split())
