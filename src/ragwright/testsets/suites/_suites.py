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
from typing import Literal, TypeAlias, get_args

from ...core import GoldSpan, MetaValue, Row, TestsetError, counted, near, text_hash
from ._gold_answers import GoldAnswer, LeakCheck

Suite: TypeAlias = Literal["noise", "rejection", "integration", "counterfactual", "sources"]

Distractors: TypeAlias = Literal["hard", "random", "mixed"]

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
"""Share of the questions that must have the passages for a requested dose."""

_MOST = 0.8
"""The same for a dose that is chosen automatically."""

_STANDARD = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True, slots=True)
class SuiteOptions:
    """Settings of the suites to make.

    Attributes:
        suites: Names of the suites; all if empty.
        passages: Passages in a context.
        doses: Shares of irrelevant passages of ``noise`` and ``integration``, 0 to 1. If empty,
            those of 0, 0.2, … 1 for which most questions have passages, or if these are too few,
            all possible shares.
        falsified: Shares of falsified passages of ``counterfactual``; 0 is the control.
        sources: Most questions joined into one in ``sources``.
        distractors: ``hard``: other hits of a search for the question; ``random``: any passages;
            ``mixed``: both in turn. If there are too few hard ones, random ones follow.
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
    distractors: Distractors = "hard"
    closed_book: bool = True
    report_errors: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings for which no suite can be made.

        Raises:
            TestsetError: An unknown suite or kind of distractors, a dose outside 0 to 1, too few
                passages or sources.
        """
        if self.distractors not in get_args(Distractors):
            raise TestsetError(
                f"unknown distractors {self.distractors!r}", hint="write hard, random or mixed"
            )
        for name in self.suites:
            if name not in SUITES:
                raise TestsetError(f"unknown suite {name!r}", hint=near(name, SUITES))
        wrong = [dose for dose in (*self.doses, *self.falsified) if not 0 <= dose <= 1]
        if wrong or not self.falsified:
            raise TestsetError(
                f"a dose of {wrong[0]:g}" if wrong else "no dose is given",
                hint="doses are shares from 0 to 1: 0,0.2,0.4",
            )
        if self.passages < 1 or self.sources < 1:
            raise TestsetError(
                f"{counted(self.passages, 'passage')}, {self.sources} sources",
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


@dataclass(frozen=True, slots=True)
class SuiteRows:
    """Rows of suites in order, and notes for users of the results."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


def checked_distractors(
    candidates: Iterable[GoldSpan],
    relevant: Sequence[GoldSpan],
    answer: GoldAnswer,
    dropped: Counter[str],
) -> Iterator[GoldSpan]:
    """Candidates that are irrelevant: outside the gold, and not revealing the answer.

    Each text once, in order. What is left out is counted by its reason in ``dropped``.
    """
    check = LeakCheck(answer)
    seen = {span.text for span in relevant}
    for one in candidates:
        if one.text in seen or not one.text.strip():
            continue
        seen.add(one.text)
        if any(overlaps(one, span) for span in relevant):
            dropped["passages that overlap the gold"] += 1
        elif not check.possible:
            dropped["passages that cannot be checked"] += 1
        elif check.leaks(one.text):
            dropped["passages that reveal the answer"] += 1
        else:
            yield one


def overlaps(one: GoldSpan, other: GoldSpan) -> bool:
    """True if two spans share characters of one document."""
    return one.document_id == other.document_id and one.start < other.end and other.start < one.end


def suite_rows(
    evidence: Sequence[Evidence], options: SuiteOptions | None = None, *, where: str = ""
) -> SuiteRows:
    """The suites over these questions, and a note for everything that was left out.

    Args:
        evidence: Questions; each id once.
        options: Which suites, which doses.
        where: Source of the questions, for messages.

    Raises:
        TestsetError: No row can be made; the notes say why.
    """
    chosen = options or SuiteOptions()
    rows: list[Row] = []
    notes: list[str] = []
    for suite in chosen.wanted:
        made, said = _MAKERS[suite](evidence, chosen)
        rows += made
        notes += [f"{suite}: {note}" for note in said]
        if not made:
            notes.append(f"{suite}: no row can be made")
    if not rows:
        raise TestsetError(
            "no row of a suite can be made",
            where=where,
            hint="; ".join(notes) or "the testset has no questions",
        )
    if chosen.closed_book:
        rows += _closed_book(rows)
    return SuiteRows(tuple(rows), tuple(notes))


def mixed(
    one: Evidence, passages: int, dose: float
) -> tuple[tuple[GoldSpan, ...], tuple[GoldSpan, ...]] | None:
    """The largest mixture of relevant and irrelevant passages with exactly a dose.

    At most ``passages`` together, fewer if only then the share is exact; None if the question has
    too few of either.
    """
    relevant = one.gold + one.more
    for total in range(passages, 0, -1):
        count = round(dose * total)
        rest = total - count
        if abs(dose * total - count) > 1e-9 or count > len(one.distractors):
            continue
        if rest == 0 or len(one.gold) <= rest <= len(relevant):
            return relevant[:rest], one.distractors[:count]
    return None


_Made: TypeAlias = tuple[list[Row], list[str]]
_Mixture: TypeAlias = tuple[tuple[GoldSpan, ...], tuple[GoldSpan, ...]]
_Mixer: TypeAlias = Callable[[Evidence, int, float], _Mixture | None]


def _noise(evidence: Sequence[Evidence], options: SuiteOptions) -> _Made:
    return _by_dose("noise", evidence, options, _doses(evidence, options))


def _rejection(evidence: Sequence[Evidence], options: SuiteOptions) -> _Made:
    return _by_dose("rejection", evidence, options, (1.0,))


def _integration(evidence: Sequence[Evidence], options: SuiteOptions) -> _Made:
    several = [one for one in evidence if len(one.answer.parts) > 1]
    groups, notes = _groups([one for one in evidence if len(one.answer.parts) == 1], 2, options)
    joined = [_joined(group) for group in groups]
    usable = [*several, *joined]
    doses = tuple(dose for dose in _doses(usable, options) if dose < 1)
    if usable and not doses:
        return [], [*notes, "no dose below 1, so there is nothing to integrate"]
    rows, more = _by_dose("integration", usable, options, doses)
    return rows, [*notes, *more]


def _sources(evidence: Sequence[Evidence], options: SuiteOptions) -> _Made:
    single = [one for one in evidence if len(one.answer.parts) == 1]
    groups, notes = _groups(single, options.sources, options)
    rows = []
    short = 0
    for group in groups:
        whole = _joined(group)
        contexts = []
        for count in range(1, len(group) + 1):
            part = replace(_joined(group[:count]), distractors=whole.distractors)
            room = max(options.passages, len(whole.gold)) - len(part.gold)
            if room > len(part.distractors):
                break
            contexts.append((part, float(count), part.gold, part.distractors[:room]))
        if len(contexts) < len(group):
            short += 1
            continue
        rows += [_row("sources", whole.row.id, *context, options) for context in contexts]
    if short:
        notes.append(f"{short} groups have too few irrelevant passages")
    return rows, notes


def _counterfactual(evidence: Sequence[Evidence], options: SuiteOptions) -> _Made:
    usable = [one for one in evidence if one.falsified]
    swapped = [
        replace(
            one,
            gold=(),
            more=tuple(true for true, _ in one.falsified),
            distractors=tuple(false for _, false in one.falsified),
        )
        for one in usable
    ]
    notes = []
    if len(usable) < len(evidence):
        notes.append(
            f"{len(evidence) - len(usable)} of {len(evidence)} questions have no answer that "
            "another date, number, code or name can replace"
        )
    rows: list[Row] = []
    if not swapped:
        return rows, notes
    for dose, kept in _common(swapped, options.falsified, _falsified_mix, options, notes):
        for one in kept:
            true, false = _falsified_mix(one, options.passages, dose) or ((), ())
            rows.append(_row("counterfactual", one.row.id, one, dose, true, false, options))
    return rows, notes


def _falsified_mix(one: Evidence, passages: int, dose: float) -> _Mixture | None:
    """The first passages of a question, with exactly the share of false ones."""
    for total in range(min(passages, len(one.more)), 0, -1):
        count = round(dose * total)
        if abs(dose * total - count) <= 1e-9:
            return one.more[count:total], one.distractors[:count]
    return None


def _doses(evidence: Sequence[Evidence], options: SuiteOptions) -> tuple[float, ...]:
    """The requested doses, else those for which most questions have passages."""
    if options.doses:
        return options.doses
    due = _MOST * len(evidence)

    def able(dose: float) -> bool:
        return sum(mixed(one, options.passages, dose) is not None for one in evidence) >= due

    standard = tuple(dose for dose in _STANDARD if able(dose))
    if sum(0 < dose < 1 for dose in standard) > 1:
        return standard
    shares = {k / total for total in range(1, options.passages + 1) for k in range(total + 1)}
    return tuple(dose for dose in sorted(shares) if able(dose))


def _by_dose(
    suite: Suite, evidence: Sequence[Evidence], options: SuiteOptions, doses: Sequence[float]
) -> _Made:
    """A row per question and dose, for the doses and questions that are possible."""
    notes: list[str] = []
    rows = []
    for dose, kept in _common(evidence, doses, mixed, options, notes):
        for one in kept:
            relevant, noise = mixed(one, options.passages, dose) or ((), ())
            rows.append(_row(suite, one.row.id, one, dose, relevant, noise, options))
    return rows, notes


def _common(
    evidence: Sequence[Evidence],
    doses: Sequence[float],
    mixer: _Mixer,
    options: SuiteOptions,
    notes: list[str],
) -> list[tuple[float, list[Evidence]]]:
    """Doses with their questions: the same at every dose, so that curves compare like with like.

    Doses that less than half of the questions can have are left out, then questions that cannot
    have all remaining doses.
    """
    able = {
        dose: {one.row.id for one in evidence if mixer(one, options.passages, dose) is not None}
        for dose in dict.fromkeys(doses)
    }
    kept = [dose for dose in able if able[dose] and len(able[dose]) >= _SENSIBLE * len(evidence)]
    for dose in able:
        if dose not in kept:
            notes.append(
                f"dose {dose:g} is left out: {len(able[dose])} of {len(evidence)} questions have "
                "the passages for it"
            )
    ids = set.intersection(*(able[dose] for dose in kept)) if kept else set()
    lost = len(evidence) - len(ids)
    if kept and lost:
        notes.append(
            f"{lost} of {len(evidence)} questions are left out: they have too few relevant or "
            "irrelevant passages for one of the doses"
        )
    chosen = [one for one in evidence if one.row.id in ids]
    return [(dose, chosen) for dose in kept]


def _groups(
    evidence: Sequence[Evidence], size: int, options: SuiteOptions
) -> tuple[list[list[Evidence]], list[str]]:
    """Disjoint groups of questions whose passages do not reveal each other's answers."""
    order = sorted(evidence, key=lambda one: text_hash(f"{options.seed}\x00{one.row.id}"))
    checks = {one.row.id: LeakCheck(one.answer) for one in order}
    waiting = [one for one in order if one.gold and checks[one.row.id].possible]
    groups: list[list[Evidence]] = []
    alone = len(order) - len(waiting)
    while waiting:
        group = [waiting.pop(0)]
        for other in list(waiting):
            if len(group) == size:
                break
            if all(_apart(one, other, checks) for one in group):
                group.append(other)
                waiting.remove(other)
        if len(group) == size:
            groups.append(group)
        else:
            alone += 1
            waiting += group[1:]
    notes = [f"{alone} of {len(order)} questions could not be joined to others"] if alone else []
    return groups, notes


def _apart(one: Evidence, other: Evidence, checks: dict[str, LeakCheck]) -> bool:
    """True if two questions need separate passages: neither's gold answers the other."""
    if one.row.persona_name != other.row.persona_name:
        return False
    if one.answer.language != other.answer.language:
        return False
    pairs = ((one, checks[other.row.id]), (other, checks[one.row.id]))
    return not any(check.leaks(span.text) for side, check in pairs for span in side.gold)


def _joined(group: Sequence[Evidence]) -> Evidence:
    """Several questions as one: all their gold, and distractors that reveal none of the answers."""
    first, *others = group
    if not others:
        return first
    answer = first.answer
    for other in others:
        answer = answer.joined(other.answer)
    joint = _JOINTS.get(answer.language, "+")
    rows = [one.row for one in group]
    row = replace(
        rows[0],
        id="+".join(row.id for row in rows),
        user_input=f" {joint} ".join(row.user_input.strip() for row in rows),
        reference_ids={k: v for row in rows for k, v in row.reference_ids.items()},
        reference_spans=tuple(span for row in rows for span in row.reference_spans),
    )
    gold = tuple(span for one in group for span in one.gold)
    # Alternate between the questions, so that no question's distractors dominate.
    turns = [list(one.distractors) for one in group]
    longest = max(map(len, turns))
    ordered = [turn[at] for at in range(longest) for turn in turns if at < len(turn)]
    relevant = gold + tuple(span for one in group for span in one.more)
    return Evidence(
        row,
        answer,
        gold,
        relevant[len(gold) :],
        tuple(checked_distractors(ordered, relevant, answer, Counter())),
        frozenset().union(*(one.hard for one in group)),
    )


def _row(
    suite: Suite,
    base: str,
    one: Evidence,
    dose: float,
    relevant: Sequence[GoldSpan],
    noise: Sequence[GoldSpan],
    options: SuiteOptions,
) -> Row:
    """One row: the passages in a random order for the question, with metadata."""
    gold = {id(span) for span in relevant}
    passages = sorted(
        (*relevant, *noise),
        key=lambda span: text_hash(
            f"{options.seed}\x00{base}\x00{span.document_id}\x00{span.text}"
        ),
    )
    falsified = suite == "counterfactual"
    metadata: dict[str, MetaValue] = {
        "suite": suite,
        "dose": dose,
        "base": base,
        **one.answer.metadata(),
        "relevant": len(relevant),
        "gold_rank": next((n for n, span in enumerate(passages, 1) if id(span) in gold), 0),
    }
    if falsified:
        metadata |= {"falsified": dose > 0, "fake": one.fake}
        if options.report_errors:
            metadata["ask"] = REPORT_ERRORS
    else:
        hard = sum(span.text in one.hard for span in noise)
        metadata |= {"answerable": bool(relevant), "hard": hard}
    return Row(
        id=f"{suite}/{dose:g}/{base}",
        user_input=one.row.user_input,
        reference=one.answer.text,
        retrieved_contexts=tuple(span.text for span in passages),
        retrieved_context_ids=tuple(span.document_id for span in passages),
        retrieved_spans=tuple(passages),
        reference_spans=one.row.reference_spans,
        persona_name=one.row.persona_name,
        metadata=metadata,
    )


def _closed_book(rows: Sequence[Row]) -> list[Row]:
    """Each question of the rows, once per persona, without passages."""
    asked = {(row.user_input, row.persona_name): row for row in reversed(rows)}
    kept = ("base", "language", "references")
    found: list[Row] = []
    for row in reversed(asked.values()):
        metadata = {
            name: value
            for name, value in row.metadata.items()
            if name in kept or name.startswith("part_")
        }
        found.append(
            Row(
                id=f"{CLOSED_BOOK}/{row.id.split('/', 2)[2]}/{len(found) + 1}",
                user_input=row.user_input,
                reference=row.reference,
                persona_name=row.persona_name,
                metadata={"suite": CLOSED_BOOK, "dose": 0.0, **metadata},
            )
        )
    return found


_MAKERS = {
    "noise": _noise,
    "rejection": _rejection,
    "integration": _integration,
    "counterfactual": _counterfactual,
    "sources": _sources,
}
