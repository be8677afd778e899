"""Making a promise: choose on the tune split, certify on the confirm split, write it down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..core import ConfigError, TestsetError, count_noun, make_plain
from ..flow import Forecast
from ..measure import Measure, parse_measures
from ..project import Project, refuse_forget
from ..testsets import Openings, Testset, project_testset, split_clusters
from ._certificate import (
    Certificate,
    answering_settings_of,
    certificate_in_force,
    certificates,
    hash_promised_parts,
    now_text,
    percent,
    promise_lock,
    put_in_force,
    write_certificate,
)
from ._certify import (
    POWER,
    SCORES,
    GradedRows,
    Plan,
    RightRule,
    ScoreCandidate,
    ThresholdStep,
    certify_steps,
    choose_plan,
    grade_rows,
    parse_right_rule,
    risk_bound,
    rows_needed,
    score_measures,
)
from ._evaluate import evaluate_testset, forecast_testset
from ._results import EvaluationOptions, read_plain
from ._sweep import open_once

KIND = "promise"
"""Kind of the runs that hold promises."""


@dataclass(frozen=True, slots=True)
class PromiseOptions:
    """What is to be promised.

    Attributes:
        testset: Address of the test set.
        risk: Most of the answered questions that may be wrong, as a share between 0 and 1.
        confidence: Least chance that the certificate is right, between 0 and 1.
        measure: When an answer is right: a measure with a bound; empty for the gold answers.
        scores: Scores among which the tune split chooses; see :data:`SCORES`.
    """

    testset: str
    risk: float = 0.05
    confidence: float = 0.95
    measure: str = ""
    scores: tuple[str, ...] = SCORES

    def __post_init__(self) -> None:
        """Refuse shares outside of (0, 1)."""
        for name, share in (("risk", self.risk), ("confidence", self.confidence)):
            if not 0 < share < 1:
                raise ConfigError(
                    f"the {name} must be a share between 0 and 1, not {share:g}",
                    where=f"--{name}",
                    hint="for example --risk 0.05 --confidence 0.95",
                )
        if not self.scores:
            raise ConfigError(
                "no score to choose from", where="--scores", hint=f"known: {', '.join(SCORES)}"
            )


@dataclass(frozen=True, slots=True)
class PromiseResult:
    """The outcome of :func:`make_promise`.

    Attributes:
        certificate: What was certified and is in force now; None if nothing could be.
        candidates: The scores on the tune split.
        reason: Why nothing was certified; empty if something was.
        needed: Held-out questions that pass by a chance of 0.8 at the error rates of the tune
            split; None if no number is expected to be enough.
        chance: Chance of passing, estimated on the tune split.
        failed: The threshold at which the sequence of tests ended; None if all passed.
        opened: True if the confirm split was opened, now or by an earlier call.
        again: True if the stored result of an equal call is shown.
        notes: Remarks for the reader.
    """

    certificate: Certificate | None
    candidates: tuple[ScoreCandidate, ...]
    reason: str = ""
    needed: int | None = None
    chance: float = 0.0
    failed: ThresholdStep | None = None
    opened: bool = False
    again: bool = False
    notes: tuple[str, ...] = ()


@refuse_forget("promise")
def make_promise(
    project: Project, options: PromiseOptions, told: Callable[[str], None] | None = None
) -> PromiseResult:
    """Certify that at most ``options.risk`` of the answered questions are wrong; put it in force.

    Every question of the tune split is answered once; score and thresholds are chosen there. If
    the chance of passing is a half or more, ``told`` gets it in a sentence, and the confirm split
    is opened (which is logged), answered once, and tested. Calling it again with nothing changed
    shows the stored result.

    Raises:
        ConfigError: A setting is out of range.
        MeasureError: A measure is unknown.
        StoppedError: The budget or the user stopped it; finished rows are kept.
        StoreError: Another process changes the promise, or the files cannot be written.
        TestsetError: A split is empty or too small, or no row says what is right.
    """
    with promise_lock(project.folder, "promise"):
        return _PromiseMaker(project, options).run(told)


def repeat_request(project: Project) -> PromiseOptions:
    """What the promise in force asked for, to make it again after a change.

    Raises:
        ConfigError: There is no promise.
    """
    certificate = certificate_in_force(project.folder)
    if certificate is None:
        raise ConfigError(
            "there is no promise to make again",
            where=str(project.folder.promise),
            hint="run: ragwright promise --testset T",
        )
    scores = tuple(candidate.score for candidate in certificate.candidates)
    return PromiseOptions(
        certificate.testset, certificate.risk, certificate.confidence, certificate.measure, scores
    )


def forecast_promise(
    project: Project, options: PromiseOptions, told: Callable[[str], None] | None = None
) -> Forecast:
    """Forecast the calls and cost of :func:`make_promise`; no opening is logged.

    ``told`` gets the chance of passing if the answers to the tune split cost no call: these are
    then written and stored.

    Raises as :func:`make_promise`.
    """
    maker = _PromiseMaker(project, options)
    forecast = maker.forecast(maker.tune)
    if told is not None:
        unknown = "known once the tune split is answered, before the other is opened"
        told(f"chance of passing: {unknown}" if forecast.calls.high else maker.outlook())
    return forecast + maker.forecast(maker.closed)


class _PromiseMaker:
    """One promise on its way."""

    def __init__(self, project: Project, options: PromiseOptions) -> None:
        self._project = project
        self._options = options
        self._rule: RightRule = parse_right_rule(options.measure, project.settings.judge.language)
        measures = score_measures(options.scores)
        if self._rule.rule is not None and self._rule.rule.measure not in measures:
            measures = (*measures, self._rule.rule.measure)
        # an evaluation wants at least one measure
        self._measures: Sequence[Measure] = measures or parse_measures(SCORES[-1])
        self._open_settings = project.variant(answering_settings_of(project.settings))
        self._parts = hash_promised_parts(project)
        self.closed = closed = self._split("confirm", dry_run=True)
        least = rows_needed(options.risk, 1 - options.confidence)
        if least is not None and len(closed.rows) < least:
            raise TestsetError(
                f"the confirm split has {count_noun(len(closed.rows), 'row')}: too few to certify "
                "a "
                f"risk of {percent(options.risk)} with confidence {percent(options.confidence)}",
                where=options.testset,
                hint=f"{least} answered held-out questions without a single error are needed; the "
                "split stays closed",
            )
        self.tune = self._split("tune")

    def _split(self, name: str, *, dry_run: bool = False) -> Testset:
        """Load a split; opening the confirm split is logged unless it is a dry run."""
        options = self._options
        purpose = f"promise: at most {percent(options.risk)} of answers wrong"
        return project_testset(
            self._project.folder, options.testset, name, purpose=purpose, dry_run=dry_run
        )

    def forecast(self, testset: Testset) -> Forecast:
        """Forecast the answers to a split."""
        return forecast_testset(self._open_settings, testset, self._measures, EvaluationOptions())

    def run(self, told: Callable[[str], None] | None) -> PromiseResult:
        """Choose, then certify."""
        runs = self._project.runs
        manifest, plan, outcome = self._choose()
        if runs.complete(KIND, manifest) is None:
            if plan.hopeless:
                return self._refusal(plan, outcome)
            if told is not None:
                told(_chance_line(plan))
        run, again = open_once(
            runs,
            KIND,
            manifest,
            lambda begun: self._split("confirm", dry_run=begun),
            lambda run, confirm: [self._certify(run, confirm, plan, outcome)],
        )
        [row] = runs.rows(run)
        outcome = replace(outcome, opened=True, again=again, notes=tuple(row.body["notes"]))
        if "failed" in row.body:
            failed = read_plain(ThresholdStep, row.body["failed"])
            return self._refusal(plan, replace(outcome, failed=failed))
        folder = self._project.folder
        written = [known for known in certificates(folder) if known.run == run]
        if written:
            [*_, certificate] = written
        else:
            certificate = write_certificate(folder, read_plain(Certificate, row.body))
        if certificate_in_force(folder) != certificate:
            put_in_force(folder, certificate)
        return replace(outcome, certificate=certificate)

    def outlook(self) -> str:
        """The chance of passing, or why the confirm split would stay closed."""
        _, plan, outcome = self._choose()
        return self._refusal(plan, outcome).reason if plan.hopeless else _chance_line(plan)

    def _choose(self) -> tuple[dict[str, Any], Plan, PromiseResult]:
        """Answer and grade the tune split, and choose on it what would be certified."""
        project, options, closed = self._project, self._options, self.closed
        manifest = {
            "testset": options.testset,
            "risk": options.risk,
            "confidence": options.confidence,
            "measure": options.measure,
            "scores": list(options.scores),
            "tune": self.tune.fingerprint,
            "confirm": closed.opened,
            "parts": dict(self._parts),
            "snapshot": self._open_settings.target().snapshot,
        }
        begun = project.runs.complete(KIND, manifest) or project.runs.unfinished(KIND, manifest)
        rows = self._graded(self.tune)
        plan, candidates = choose_plan(
            rows.scores,
            rows.wrong,
            risk=options.risk,
            alpha=self._level(self._openings(closed) + (begun is None)),
            rows=len(closed.rows),
        )
        notes = _ungraded_note(rows, "tune")
        return manifest, plan, PromiseResult(None, candidates, chance=plan.chance, notes=notes)

    def _openings(self, confirm: Testset) -> int:
        log = self._project.folder.openings
        return len(Openings.touching(log, confirm.name, confirm.opened))

    def _level(self, opening: int) -> float:
        """The level of the test at an opening of the confirm split, the first being 1."""
        return float((1 - self._options.confidence) * 0.5 ** (max(1, opening) - 1))

    def _certify(
        self, run: str, confirm: Testset, plan: Plan, outcome: PromiseResult
    ) -> dict[str, Any]:
        """Test on the opened split: the certificate, or the threshold that failed, as stored."""
        project, options = self._project, self._options
        opening = max(1, self._openings(confirm))
        alpha = self._level(opening)
        rows = self._graded(confirm)
        steps, failed = certify_steps(
            plan, rows.scores[plan.score], rows.wrong, risk=options.risk, alpha=alpha
        )
        place = str(project.folder.openings)  # differs by machine; certificates are shared
        remarks = [note for note in confirm.notes if place not in note]
        notes = (*outcome.notes, *_ungraded_note(rows, "confirm"), *remarks)
        notes = (*notes, *_dependence_note(confirm))
        if not steps:
            return {"failed": make_plain(failed), "notes": list(notes)}
        last = steps[-1]
        return asdict(
            Certificate(
                number="",
                date=now_text()[:10],
                risk=options.risk,
                confidence=options.confidence,
                score=plan.score,
                threshold=last.threshold,
                rule=str(self._rule),
                measure=options.measure,
                testset=options.testset,
                asked=len(rows.wrong),
                answered=last.answered,
                errors=last.errors,
                bound=risk_bound(last.errors, last.answered, alpha),
                opening=opening,
                alpha=alpha,
                candidates=outcome.candidates,
                personas=tuple(
                    sorted({project.persona(r.persona_name).name for r in confirm.rows})
                ),
                snapshot=self._open_settings.target().snapshot,
                parts=self._parts,
                splits={"tune": self.tune.fingerprint, "confirm": confirm.opened},
                run=run,
                chance=plan.chance,
                luck=plan.luck,
                unanswerable=rows.unanswerable,
                notes=notes,
            )
        )

    def _refusal(self, plan: Plan, outcome: PromiseResult) -> PromiseResult:
        """Why nothing is certified, and how many questions are needed."""
        state = "" if outcome.opened else "; the confirm split stays closed"
        if not plan.thresholds:
            return replace(outcome, reason=f"no question of the tune split was answered{state}")
        risk = percent(self._options.risk)
        needed = plan.questions_needed(self._options.risk, 1 - self._options.confidence)
        if needed is None:
            reason = (
                f"on the tune split no threshold keeps the share of wrong answers below {risk}: "
                "the scores do not tell right answers from wrong ones well enough. Improve the "
                "answers, or state a higher risk"
            )
        elif needed <= len(self.closed.rows) and not outcome.opened:
            reason = (
                "the tune split has too few questions to know how many answers are wrong: add some"
            )
        else:
            reason = (
                f"too few held-out questions for a risk of {risk}: about {needed:,} are "
                f"needed at the error rates of the tune split, for a chance of {percent(POWER)}"
            )
        if not outcome.opened:
            chance = f"chance of passing {plan.chance:.0%}, estimated on the tune split"
            reason = f"if this passes it is probably luck ({chance}): {reason}"
        return replace(outcome, reason=f"{reason}{state}", needed=needed)

    def _graded(self, testset: Testset) -> GradedRows:
        """Answer the rows of a split once, at the lowest threshold, and grade the answers.

        Raises:
            TestsetError: No row says what is right.
        """
        evaluation, summary = evaluate_testset(
            self._open_settings, testset, self._measures, EvaluationOptions(resume=True)
        )
        if summary.reason is not None:
            raise summary.reason
        rows = grade_rows(evaluation.results, self._options.scores, self._rule)
        if not len(rows.wrong):
            raise TestsetError(
                "no row says whether its answer is right",
                where=self._options.testset,
                hint="add gold answers (reference), mark rows answerable: false, or give "
                "--measure, such as --measure 'KPrecision>=0.8'",
            )
        return rows


def _chance_line(plan: Plan) -> str:
    return (
        f"chance of passing: {plan.chance:.0%}, estimated on the tune split; a pass would be luck "
        f"with chance {plan.luck:.1%}"
    )


def _ungraded_note(rows: GradedRows, split: str) -> tuple[str, ...]:
    if not rows.ungraded:
        return ()
    return (
        f"{count_noun(rows.ungraded, 'answered row')} of the {split} split left out: no gold says "
        "whether the answer is right",
    )


def _dependence_note(confirm: Testset) -> tuple[str, ...]:
    """A note where rows share gold documents, so that they are no independent draws."""
    groups = len(set(split_clusters(confirm.rows).values()))
    if 2 * groups >= len(confirm.rows):
        return ()
    return (
        f"the {len(confirm.rows)} held-out questions are about {count_noun(groups, 'document')}: "
        "the certificate holds for more questions about these, not for other documents",
    )
