"""Audits of a project: stored runs of findings, compared with earlier ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ..core import (
    ConfigError,
    Document,
    count_noun,
    load_shipped_mapping,
    replace_text,
    suggest_name,
)
from ..experiment import RunOptions, judging, run_named
from ..flow import Flow, Forecast, Job, Run, Runs, RunSummary
from ..measure import (
    JudgeCall,
    JudgeDeclinedError,
    MeasureSetup,
    ask_judge,
    read_object,
    schema_text,
    text_of,
)
from ..project import Project, refuse_forget
from ..retrieve import mine_glossary, retrieve
from ..testsets import project_testset
from ._pairs import Damage, Pairs
from ._records import KINDS, Audit, Finding, check_kinds, finding_body, finding_of, rank_findings
from ._references import References
from ._text import AuditCorpus, Codes, Copies, lines_of

_RULE = re.compile(r"^\s*(?P<kind>[a-z]+)\s*(?P<sign><=|==|=|<)\s*(?P<count>\d+)\s*$")
_HINT = "write a kind, = or <=, and a whole number: references=0, copies<=5"


@dataclass(frozen=True, slots=True)
class AuditGate:
    """A rule: at most ``most`` findings of a kind; of all kinds for ``findings``."""

    kind: str
    most: int

    def __str__(self) -> str:
        """The rule as it is typed."""
        return f"{self.kind}<={self.most}"


def read_rules(text: str) -> tuple[AuditGate, ...]:
    """Rules such as ``references=0, copies<=5``; ``=`` means at most.

    Raises:
        ConfigError: There is none, one cannot be read, or names an unknown kind.
    """
    if not text.strip():
        raise ConfigError("the gate has no rule", where="--gate", hint=_HINT)
    rules = []
    for part in text.split(","):
        match = _RULE.match(part)
        if match is None:
            raise ConfigError(f"cannot read the rule {part.strip()!r}", where="--gate", hint=_HINT)
        if match["kind"] not in (*KINDS, "findings"):
            raise ConfigError(
                f"unknown kind of finding {match['kind']!r}",
                where="--gate",
                hint=suggest_name(match["kind"], (*KINDS, "findings")),
            )
        rules.append(AuditGate(match["kind"], int(match["count"]) - (match["sign"] == "<")))
    return tuple(rules)


def require_kinds(rules: Sequence[AuditGate], kinds: Sequence[str]) -> None:
    """Refuse a rule on a kind that is not looked for: it would pass whatever the documents hold.

    Raises:
        ConfigError: With the kinds to name.
    """
    for rule in rules:
        if rule.kind not in (*kinds, "findings"):
            raise ConfigError(
                f"the gate has the rule {rule}, but the audit does not look for {rule.kind}",
                where="--gate",
                hint=f"add it to --kinds: {','.join((*kinds, rule.kind))}",
            )


def check_audit(audit: Audit, rules: Sequence[AuditGate]) -> tuple[str, ...]:
    """One sentence for each rule that the audit fails; empty if it passes.

    Raises:
        ConfigError: A rule is on a kind that the audit did not look for.
    """
    require_kinds(rules, audit.kinds)
    counts = {**audit.counts(), "findings": len(audit.findings)}
    return tuple(
        f"{'' if rule.kind == 'findings' else f'{rule.kind}: '}"
        f"{count_noun(counts[rule.kind], 'finding')}, at most {rule.most} allowed ({rule})"
        for rule in rules
        if counts[rule.kind] > rule.most
    )


_SHOWN = 5
"""Places of a finding."""

_REACH = 20
"""Hits of a question of the test set among which a chunk must be to count as found."""


def out_of_reach(
    project: Project, corpus: AuditCorpus, testset: str, depth: int
) -> Iterator[Finding]:
    """Chunks that no question of a test set finds; one finding for each document.

    Each text is searched for once; no model rewrites a question or answers it.
    """
    rows = project_testset(project.folder, testset, purpose="audit").rows
    questions = list(dict.fromkeys(row.user_input for row in rows))
    settings, target = project.settings.retrieve, project.target()
    options = replace(
        settings,
        query=type(settings.query)(),
        iterate=type(settings.iterate)(),
        top_k=depth,
        context_tokens=None,
    )
    reached: set[tuple[str, int, int]] = set()
    project.runner.progress.begin(len(questions), "questions")
    for result in project.runner.map(retrieve(text, target, options) for text in questions):
        reached |= {(hit.document_id, hit.start, hit.end) for hit in result.hits}
        project.runner.progress.finished += 1
    with project.store.reading(project.index_spec) as state:
        for stored in state.documents():
            name, total = stored.document.id, len(stored.chunks)
            missed = [c for c in stored.chunks if (name, c.start, c.end) not in reached]
            if not missed or name not in corpus.numbers:
                continue
            number = corpus.numbers[name]
            yield Finding(
                "reach",
                "unreached chunk",
                "medium" if len(missed) == total else "low",
                tuple(corpus.place(number, c.start, c.end) for c in missed[:_SHOWN]),
                f"{len(missed)} of {count_noun(total, 'chunk')} of {corpus.briefs[number].source} "
                f"{'is' if len(missed) == 1 else 'are'} not among the first {depth} hits of any of "
                f"{count_noun(len(questions), 'question')}.",
                "Give the passage a heading and words of its own, leave out copies that outrank "
                "it, or ask about it in the test set.",
                marks={"chunks": len(missed), "of": total},
                subject=name,
            )


@dataclass(slots=True)
class Scan:
    """What one pass over the documents yields.

    Attributes:
        corpus: What is remembered of each document.
        findings: Findings, in no particular order.
        pages: Pages of formats that have some.
        characters: Length of all texts.
    """

    corpus: AuditCorpus
    findings: list[Finding] = field(default_factory=list)
    pages: int = 0
    characters: int = 0


def scan_documents(
    documents: Callable[[], Iterable[Document]],
    read: Callable[[str], Document | None],
    kinds: Sequence[str],
    exists: Callable[[str], bool],
) -> Scan:
    """Read every document once (twice for ``codes``), and gather the findings of these kinds.

    Args:
        documents: Iterates over the documents from the beginning at each call.
        read: A document by its id, for the places of findings.
        kinds: Kinds to look for; those that need more than reading are ignored.
        exists: True for the path of a file that is there, relative to the project.
    """
    corpus = AuditCorpus(read)
    scan = Scan(corpus)
    codes, references = Codes(corpus), References(corpus, exists)
    detectors: dict[str, Pairs | Copies | Codes | References | Damage] = {
        "contradictions": Pairs(corpus),
        "copies": Copies(corpus),
        "codes": codes,
        "references": references,
        "damage": Damage(corpus),
    }
    chosen = [detector for kind, detector in detectors.items() if kind in kinds]
    for document in documents():
        brief = corpus.add(document)
        scan.pages += len(document.pages)
        scan.characters += len(document.text)
        lines = list(lines_of(document.text))
        for detector in chosen:
            detector.read(document, brief, lines)
    for detector in chosen:
        if not isinstance(detector, Codes):
            scan.findings += detector.findings()
    if "codes" in kinds:
        scan.findings += codes.findings(mine_glossary(documents()), references.dead)
    return scan


_VERDICTS = ("contradiction", "compatible")


def judge_finding(finding: Finding, setup: MeasureSetup) -> Flow[Finding]:
    """A candidate with the judge's verdict.

    A contradiction is sure then, a compatible pair is not; nor is one without a usable reply, which
    says why.
    """
    texts = []
    for number, place in enumerate(finding.places[:2], start=1):
        texts += [(f"source {number}", place.source), (f"passage {number}", place.text)]
    call = JudgeCall(
        file=load_shipped_mapping("audit", "prompts/contradiction.yaml"),
        texts=tuple(texts),
        read=_read_reply,
        schema=schema_text({"reason": {"type": "string"}, "verdict": {"enum": [*_VERDICTS, None]}}),
        stand_in=("contradiction", ""),
        sources=tuple(dict.fromkeys(place.document_id for place in finding.places)),
        advice="These pairs are not judged. Name another judge.model.",
    )
    judged = yield from ask_judge(call, setup)
    if judged.value is None:
        return replace(finding, verdict=f"not judged: {judged.why}")
    verdict, reason = judged.value
    text = f"{verdict}: {reason}" if reason else verdict
    return replace(finding, sure=verdict == "contradiction", verdict=text)


def _read_reply(text: str, finish: str) -> tuple[str, str]:
    """The verdict and reason of a reply."""
    values = read_object(text, ("reason", "verdict"), finish)
    verdict, reason = values["verdict"], text_of(values["reason"], "reason")
    if verdict is None:
        raise JudgeDeclinedError(f"the judge declined: {reason}")
    if verdict not in _VERDICTS:
        raise ValueError(f"the verdict is not one of {', '.join(_VERDICTS)}")
    return verdict, reason


KIND = "audit"
_RULES = 3
"""Version of the rules: audits of different ones are not resumed."""


@dataclass(frozen=True, slots=True)
class AuditPlan(RunOptions):
    """Options of an audit.

    Attributes:
        kinds: Kinds to look for; all if empty.
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


@refuse_forget(KIND)
def run_audit(project: Project, options: AuditPlan) -> tuple[Audit, RunSummary]:
    """Read the documents of the index, gather what is wrong with them, and store it as a run.

    Without ``judge`` nothing is paid.

    Raises:
        RetrieveError: Nothing has been ingested.
        ConfigError: A kind is unknown or lacks what it needs, no earlier audit exists, or the gate
            has a rule on a kind that is not looked for.
    """
    earlier = _earlier(project.runs, options.since) if options.since else None
    audit, job = _audit_job(project, options)
    summary = run_named(project.runner, project.runs, job, options)
    audit = replace(audit, run=summary.run)
    findings, errors = _stored_findings(project.runs, summary.run)
    if errors:
        more = f" and {len(errors) - 1} more" if len(errors) > 1 else ""
        audit = replace(audit, notes=(*audit.notes, f"not judged: {errors[0]}{more}"))
    return _shown(project, audit, findings, options, earlier), summary


def forecast_audit(project: Project, options: AuditPlan) -> Forecast:
    """Forecast the calls and cost of the judge; the documents are really read."""
    _, job = _audit_job(project, options, search=False)
    return project.runner.forecast(make for _, make in job.items)


def dismiss(project: Project, finding: str, reason: str) -> Path:
    """Dismiss a finding: later audits do not show it. Returns the file, meant to be committed.

    Raises:
        ConfigError: No stored audit has a finding of this id, or there is no reason.
    """
    if not reason.strip():
        raise ConfigError("a dismissal needs a reason", where="--dismiss", hint="add --why TEXT")
    known = {row.id for run in project.runs.list(KIND) for row in project.runs.rows(run.id)}
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


def _audit_job(
    project: Project, options: AuditPlan, *, search: bool = True
) -> tuple[Audit, Job[Finding]]:
    """Read the documents, search unless it is a forecast, and plan what is left to judge."""
    setup = judging(project)
    kinds, notes = _kinds_for(options, setup)
    require_kinds(options.gate, kinds)
    snapshot = project.target().snapshot  # raises with a hint if nothing is indexed
    root = project.folder.root
    scan = scan_documents(
        partial(_each_document, project),
        project.store.document,
        kinds,
        lambda path: (root / path).exists(),
    )
    findings = list(scan.findings)
    if search and "reach" in kinds:
        findings += out_of_reach(project, scan.corpus, options.testset, _REACH)
    ranked = rank_findings(findings)
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
    manifest = {
        "rules": _RULES,
        "snapshot": snapshot,
        "kinds": list(kinds),
        "judge": setup.model if options.judge else "",
        "testset": options.testset,
        "seed": options.seed,
    }
    return audit, Job(
        kind=KIND,
        manifest=manifest,
        items=[(finding.id, partial(_settled, finding, setup)) for finding in ranked],
        encode=finding_body,
        sources=lambda finding: tuple({place.document_id for place in finding.places}),
    )


def _each_document(project: Project) -> Iterator[Document]:
    progress = project.runner.progress
    progress.begin(len(project.store.content_hashes(project.index_spec)), "documents")
    for document in project.documents():
        yield document
        progress.finished += 1


def _kinds_for(options: AuditPlan, setup: MeasureSetup) -> tuple[tuple[str, ...], list[str]]:
    """The kinds to look for, and notes on those that lack what they need."""
    check_kinds(options.kinds)
    if options.judge and not setup.model:
        raise ConfigError(
            "no chat model can judge contradictions",
            where="--judge",
            hint="name one: --set judge.model=MODEL",
        )
    wanted = options.kinds or KINDS
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
        return (yield from judge_finding(finding, setup))
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
    options: AuditPlan,
    since: Run | None,
) -> Audit:
    dismissed = _dismissed(project)
    open_ones = [finding for finding in findings if finding.id not in dismissed]
    visible = [finding for finding in open_ones if finding.sure or options.every]
    known = {row.id for row in project.runs.rows(since.id)} if since else set()
    fresh = [finding for finding in visible if finding.id not in known]
    notes = list(audit.notes)
    unknown = sorted(set(audit.kinds) - set(since.manifest["kinds"])) if since else []
    if unknown:
        notes.append(
            f"the earlier audit did not look for {', '.join(unknown)}: all of these are new"
        )
    return replace(
        audit,
        findings=rank_findings(fresh),
        hidden=len(open_ones) - len(visible),
        dismissed=len(findings) - len(open_ones),
        known=len(visible) - len(fresh),
        notes=tuple(notes),
    )


def _earlier(runs: Runs, name: str) -> Run:
    """A stored audit by run, name, snapshot or the beginning of one; ``latest`` is the newest."""
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
        hint=f"{count_noun(len(ended), 'audit')}, of the snapshots {listed}"
        if ended
        else "run `ragwright audit` before the change, then again with --since latest",
    )


def _dismissed_file(project: Project) -> Path:
    return project.folder.root / "audit-dismissed.txt"


def _dismissed(project: Project) -> frozenset[str]:
    path = _dismissed_file(project)
    if not path.is_file():
        return frozenset()
    lines = path.read_text("utf-8").splitlines()
    return frozenset(line.split()[0] for line in lines if line.split())
