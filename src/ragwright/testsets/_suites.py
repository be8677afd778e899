"""Capability suites: rows with given passages and a dose.

A suite is an ordinary testset. Each row holds the generator's passages in ``retrieved_contexts``,
and in its metadata ``suite``, ``dose`` and ``base`` (the question it was made from), which are
stored with the run. Contexts are nested: of two doses, the larger one has the irrelevant passages
of the smaller one and more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Literal, TypeAlias

from ..core import GoldSpan, MetaValue, Row, TestsetError, count_noun, suggest_name, text_hash
from ._falsify import GoldAnswer, LeakCheck
from ._testsets import Testset

Suite: TypeAlias = Literal["noise", "rejection", "integration", "counterfactual", "sources"]

SUITES: tuple[Suite, ...] = ("noise", "rejection", "integration", "counterfactual", "sources")
CLOSED_BOOK = "closed_book"
"""The suite of control rows: the same questions without passages."""

REPORT_ERRORS = "report_errors"
"""The prompt variant used for falsified passages."""

_JOINTS = {
    "en": "And also:",
    "fr": "Et aussi :",
    "de": "Und außerdem:",
    "es": "Y además:",
    "it": "E inoltre:",
    "pt": "E também:",
    "nl": "En ook:",
    "zh": "还有：",
}
_SENSIBLE = 0.5
"""Least share of the questions that must have the passages for a requested dose."""

_MOST = 0.8
"""Least share for a dose that is chosen automatically."""

_STANDARD = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True, slots=True)
class SuiteOptions:
    """Options of the suites to make.

    Attributes:
        suites: Names of the suites; all if empty.
        passages: Passages in a context.
        doses: Shares of irrelevant passages of ``noise`` and ``integration``, 0 to 1. If empty,
            those of 0, 0.2, … 1 for which most questions have passages, or if these are too few,
            all possible shares.
        falsified: Shares of falsified passages of ``counterfactual``; 0 is the control.
        sources: Most questions joined into one in ``sources``.
        closed_book: Also ask every question without passages.
        report_errors: Ask the generator to report errors in falsified passages; else the prompt
            stays as configured.
        seed: Seed of order, joining and falsification.
    """

    suites: tuple[str, ...] = ()
    passages: int = 5
    doses: tuple[float, ...] = ()
    falsified: tuple[float, ...] = (0.0, 1.0)
    sources: int = 3
    closed_book: bool = True
    report_errors: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings for which no suite can be made.

        Raises:
            TestsetError: An unknown suite, a dose outside 0 to 1, too few
                passages or sources.
        """
        for name in self.suites:
            if name not in SUITES:
                raise TestsetError(f"unknown suite {name!r}", hint=suggest_name(name, SUITES))
        wrong = [dose for dose in (*self.doses, *self.falsified) if not 0 <= dose <= 1]
        if wrong or not self.falsified:
            raise TestsetError(
                f"a dose of {wrong[0]:g}" if wrong else "no dose is given",
                hint="doses are shares from 0 to 1: 0,0.2,0.4",
            )
        if self.passages < 1 or self.sources < 1:
            raise TestsetError(
                f"{count_noun(self.passages, 'passage')}, {self.sources} sources",
                hint="ask for at least one",
            )

    @property
    def wanted(self) -> tuple[str, ...]:
        """The suites to make, in their order."""
        return tuple(name for name in SUITES if not self.suites or name in self.suites)


@dataclass(frozen=True, slots=True)
class Evidence:
    """A question with the passages from which its contexts are mixed.

    Attributes:
        row: The question: id, user_input, persona, gold spans.
        answer: The full answer.
        gold: Passages that are in every context with relevant passages.
        more: Further relevant passages: neighbours of the gold, or equivalent ones.
        distractors: Irrelevant passages, checked, in the order of use.
        hard: Number of hard distractors (found by a search for the question).
        falsified: Relevant passages and their falsified versions.
        fake: The answer in the falsified ones.
    """

    row: Row
    answer: GoldAnswer
    gold: tuple[GoldSpan, ...] = ()
    more: tuple[GoldSpan, ...] = ()
    distractors: tuple[GoldSpan, ...] = ()
    hard: frozenset[str] = frozenset()
    falsified: tuple[tuple[GoldSpan, GoldSpan], ...] = ()
    fake: tuple[str, ...] = ()


def check_distractors(
    candidates: Iterable[GoldSpan],
    relevant: Sequence[GoldSpan],
    answer: GoldAnswer,
    dropped: Counter[str],
) -> Iterator[GoldSpan]:
    """Yield the irrelevant candidates: outside the gold, and not revealing the answer.

    Each text is yielded once, in order. Candidates left out are counted by reason in ``dropped``.
    """
    check = LeakCheck(answer)
    seen = {span.text for span in relevant}
    for candidate in candidates:
        if candidate.text in seen or not candidate.text.strip():
            continue
        seen.add(candidate.text)
        if any(overlaps(candidate, span) for span in relevant):
            dropped["passages that overlap the gold"] += 1
        elif not check.possible:
            dropped["passages that cannot be checked"] += 1
        elif check.leaks(candidate.text):
            dropped["passages that reveal the answer"] += 1
        else:
            yield candidate


def overlaps(span: GoldSpan, other: GoldSpan) -> bool:
    """True if two spans share characters of one document."""
    return (
        span.document_id == other.document_id and span.start < other.end and other.start < span.end
    )


def suite_rows(
    evidence: Sequence[Evidence], options: SuiteOptions | None = None, *, where: str = ""
) -> Testset:
    """Make the suites over these questions, with a note for everything that was left out.

    Args:
        evidence: Questions; each id once.
        options: Suites and doses.
        where: Source of the questions, for messages.

    Raises:
        TestsetError: No row can be made; the notes give the reasons.
    """
    suite_options = options or SuiteOptions()
    rows: list[Row] = []
    notes: list[str] = []
    for suite in suite_options.wanted:
        new_notes: list[str] = []
        new_rows = _MAKERS[suite](evidence, suite_options, new_notes)
        rows += new_rows
        notes += [f"{suite}: {note}" for note in new_notes]
        if not new_rows:
            notes.append(f"{suite}: no row can be made")
    if not rows:
        raise TestsetError(
            "no row of a suite can be made",
            where=where,
            hint="; ".join(notes) or "the testset has no questions",
        )
    if suite_options.closed_book:
        rows += _closed_book_rows(rows)
    return Testset(f"suites of {where}", tuple(rows), tuple(notes))


_Mixture: TypeAlias = tuple[tuple[GoldSpan, ...], tuple[GoldSpan, ...]]
_Mixer: TypeAlias = Callable[[Evidence, int, float], _Mixture | None]


def _mix_passages(question: Evidence, passages: int, dose: float) -> _Mixture | None:
    """Return the largest mixture of relevant and irrelevant passages with exactly a dose.

    At most ``passages`` together, fewer if the share is exact only then; None if the question has
    too few of either.
    """
    relevant = question.gold + question.more
    for total in range(passages, 0, -1):
        count = round(dose * total)
        rest = total - count
        if abs(dose * total - count) > 1e-9 or count > len(question.distractors):
            continue
        if rest == 0 or len(question.gold) <= rest <= len(relevant):
            return relevant[:rest], question.distractors[:count]
    return None


def _noise_rows(evidence: Sequence[Evidence], options: SuiteOptions, notes: list[str]) -> list[Row]:
    doses = _possible_doses(evidence, options)
    return _rows_by_dose("noise", evidence, doses, options, notes)


def _rejection_rows(
    evidence: Sequence[Evidence], options: SuiteOptions, notes: list[str]
) -> list[Row]:
    return _rows_by_dose("rejection", evidence, (1.0,), options, notes)


def _integration_rows(
    evidence: Sequence[Evidence], options: SuiteOptions, notes: list[str]
) -> list[Row]:
    usable = [*map(_join_questions, _joinable_groups(evidence, 2, options, notes))]
    doses = [dose for dose in _possible_doses(usable, options) if dose < 1]
    if usable and not doses:
        notes.append("no dose below 1, so there is nothing to integrate")
    return _rows_by_dose("integration", usable, doses, options, notes)


def _sources_rows(
    evidence: Sequence[Evidence], options: SuiteOptions, notes: list[str]
) -> list[Row]:
    groups = _joinable_groups(evidence, options.sources, options, notes)
    rows: list[Row] = []
    short = 0
    for group in groups:
        joined = _join_questions(group)
        parts = [_join_questions(group[:count]) for count in range(1, len(group) + 1)]
        most = max(options.passages, len(joined.gold))
        noise = [joined.distractors[: most - len(part.gold)] for part in parts]
        if any(len(part.gold) + len(n) < most for part, n in zip(parts, noise, strict=True)):
            short += 1
            continue
        rows += [
            _suite_row(
                "sources", joined.row.id, part, count, (part.gold, noise[count - 1]), options
            )
            for count, part in enumerate(parts, 1)
        ]
    if short:
        notes.append(f"{short} groups have too few irrelevant passages")
    return rows


def _counterfactual_rows(
    evidence: Sequence[Evidence], options: SuiteOptions, notes: list[str]
) -> list[Row]:
    swapped = [
        replace(
            question,
            gold=(),
            more=tuple(true for true, _ in question.falsified),
            distractors=tuple(false for _, false in question.falsified),
        )
        for question in evidence
        if question.falsified
    ]
    if len(swapped) < len(evidence):
        notes.append(
            f"{len(evidence) - len(swapped)} of {len(evidence)} questions have no answer that "
            "another date, number, code or name can replace"
        )
    doses = options.falsified if swapped else ()
    return _rows_by_dose("counterfactual", swapped, doses, options, notes, _mix_falsified)


def _mix_falsified(question: Evidence, passages: int, dose: float) -> _Mixture | None:
    for total in range(min(passages, len(question.more)), 0, -1):
        count = round(dose * total)
        if abs(dose * total - count) <= 1e-9:
            return question.more[count:total], question.distractors[:count]
    return None


def _possible_doses(evidence: Sequence[Evidence], options: SuiteOptions) -> Sequence[float]:
    """Return the requested doses, or else those for which most questions have passages."""
    if options.doses:
        return options.doses

    def is_possible(dose: float) -> bool:
        mixtures = [_mix_passages(question, options.passages, dose) for question in evidence]
        return len(mixtures) - mixtures.count(None) >= _MOST * len(evidence)

    standard = list(filter(is_possible, _STANDARD))
    if sum(0 < dose < 1 for dose in standard) > 1:
        return standard
    totals = range(1, options.passages + 1)
    shares = {count / total for total in totals for count in range(total + 1)}
    return list(filter(is_possible, sorted(shares)))


def _rows_by_dose(
    suite: Suite,
    evidence: Sequence[Evidence],
    doses: Sequence[float],
    options: SuiteOptions,
    notes: list[str],
    mixer: _Mixer = _mix_passages,
) -> list[Row]:
    """Make a row per question and dose: the same questions at every dose, so that curves compare.

    Doses that less than half of the questions can have are left out, then questions that cannot
    have all remaining doses.
    """
    mixtures = {
        dose: {
            question.row.id: mixture
            for question in evidence
            if (mixture := mixer(question, options.passages, dose)) is not None
        }
        for dose in dict.fromkeys(doses)
    }
    least = max(1, _SENSIBLE * len(evidence))
    notes += [
        f"dose {dose:g} is left out: {len(found)} of {len(evidence)} questions have the passages "
        "for it"
        for dose, found in mixtures.items()
        if len(found) < least
    ]
    usable = {dose: found for dose, found in mixtures.items() if len(found) >= least}
    chosen = [q for q in evidence if all(q.row.id in found for found in usable.values())]
    if usable and len(chosen) < len(evidence):
        notes.append(
            f"{len(evidence) - len(chosen)} of {len(evidence)} questions are left out: they have "
            "too few relevant or irrelevant passages for one of the doses"
        )
    return [
        _suite_row(suite, question.row.id, question, dose, found[question.row.id], options)
        for dose, found in usable.items()
        for question in chosen
    ]


def _joinable_groups(
    evidence: Sequence[Evidence], size: int, options: SuiteOptions, notes: list[str]
) -> list[list[Evidence]]:
    """Return disjoint groups of questions whose passages do not reveal each other's answers."""
    order = sorted(evidence, key=lambda question: text_hash(f"{options.seed}\x00{question.row.id}"))
    checks = {question.row.id: LeakCheck(question.answer) for question in order}
    waiting = [question for question in order if question.gold and checks[question.row.id].possible]
    groups: list[list[Evidence]] = []
    while waiting:
        group = [waiting.pop(0)]
        for other in list(waiting):
            if len(group) < size and all(_can_be_joined(one, other, checks) for one in group):
                group.append(other)
                waiting.remove(other)
        if len(group) == size:
            groups.append(group)
        else:
            waiting += group[1:]
    unjoined = len(order) - size * len(groups)
    if unjoined:
        notes.append(f"{unjoined} of {len(order)} questions could not be joined to others")
    return groups


def _can_be_joined(question: Evidence, other: Evidence, checks: dict[str, LeakCheck]) -> bool:
    """True if neither question's gold passages answer the other, in one language and persona."""
    pairs = ((question, checks[other.row.id]), (other, checks[question.row.id]))
    return (
        question.row.persona_name == other.row.persona_name
        and question.answer.language == other.answer.language
        and not any(check.leaks(span.text) for source, check in pairs for span in source.gold)
    )


def _join_questions(group: Sequence[Evidence]) -> Evidence:
    if len(group) == 1:
        return group[0]
    parts = tuple(part for question in group for part in question.answer.parts)
    answer = replace(group[0].answer, parts=parts)
    joint = _JOINTS.get(answer.language, "+")
    rows = [question.row for question in group]
    row = replace(
        rows[0],
        id="+".join(row.id for row in rows),
        user_input=f" {joint} ".join(row.user_input.strip() for row in rows),
        reference_ids={k: v for row in rows for k, v in row.reference_ids.items()},
        reference_spans=tuple(span for row in rows for span in row.reference_spans),
    )
    gold = tuple(span for question in group for span in question.gold)
    # Alternate between the questions, so that no question's distractors dominate.
    turns = zip_longest(*(question.distractors for question in group))
    ordered = [span for turn in turns for span in turn if span is not None]
    relevant = gold + tuple(span for question in group for span in question.more)
    return Evidence(
        row,
        answer,
        gold,
        relevant[len(gold) :],
        tuple(check_distractors(ordered, relevant, answer, Counter())),
        frozenset().union(*(question.hard for question in group)),
    )


def _suite_row(
    suite: Suite,
    base: str,
    question: Evidence,
    dose: float,
    mixture: _Mixture,
    options: SuiteOptions,
) -> Row:
    relevant, noise = mixture
    gold = {id(span) for span in relevant}
    passages = sorted(
        (*relevant, *noise),
        key=lambda s: text_hash(f"{options.seed}\x00{base}\x00{s.document_id}\x00{s.text}"),
    )
    metadata: dict[str, MetaValue] = {
        "relevant": len(relevant),
        "gold_rank": next((n for n, span in enumerate(passages, 1) if id(span) in gold), 0),
    }
    if suite == "counterfactual":
        metadata |= {"falsified": dose > 0, "fake": question.fake}
        if options.report_errors:
            metadata["ask"] = REPORT_ERRORS
    else:
        metadata |= {
            "answerable": bool(relevant),
            "hard": sum(span.text in question.hard for span in noise),
        }
    return Row(
        id=f"{suite}/{dose:g}/{base}",
        user_input=question.row.user_input,
        reference=question.answer.text,
        retrieved_contexts=tuple(span.text for span in passages),
        retrieved_context_ids=tuple(span.document_id for span in passages),
        retrieved_spans=tuple(passages),
        reference_spans=question.row.reference_spans,
        persona_name=question.row.persona_name,
        metadata={
            "suite": suite,
            "dose": float(dose),
            "base": base,
            **question.answer.metadata(),
            **metadata,
        },
    )


def _closed_book_rows(rows: Sequence[Row]) -> list[Row]:
    """Return each question of the rows, once per persona, without passages."""
    by_question = {(row.user_input, row.persona_name): row for row in reversed(rows)}
    kept_names = ("base", "language", "references")
    controls: list[Row] = []
    for row in reversed(by_question.values()):
        metadata = {
            name: value
            for name, value in row.metadata.items()
            if name in kept_names or name.startswith("part_")
        }
        controls.append(
            Row(
                id=f"{CLOSED_BOOK}/{row.id.split('/', 2)[2]}/{len(controls) + 1}",
                user_input=row.user_input,
                reference=row.reference,
                persona_name=row.persona_name,
                metadata={"suite": CLOSED_BOOK, "dose": 0.0, **metadata},
            )
        )
    return controls


_MAKERS: dict[str, Callable[[Sequence[Evidence], SuiteOptions, list[str]], list[Row]]] = {
    "noise": _noise_rows,
    "rejection": _rejection_rows,
    "integration": _integration_rows,
    "counterfactual": _counterfactual_rows,
    "sources": _sources_rows,
}
