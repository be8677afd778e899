"""Candidate rows: questions that people asked and voted on, waiting for a person's decision.

A candidate is a row of a testset under review. ``retrieved_spans`` are the passages that readers
were shown, numbered from 1, and ``reference_spans`` those that the votes propose as gold. Until a
person accepts it, it is left out of every measurement.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..core import Row, TestsetError
from ..ledger import folder_locked
from ..measure import PeopleAgreement, VoteModel, clopper_pearson, people_agreement
from ._feedback_row import (
    FEEDBACK,
    feedback_words,
    gold_numbers,
    is_candidate,
    is_feedback,
    votes_on,
)
from ._labels import Decision, ReviewLog
from .rows import read_rows, write_rows


def feedback_notes(row: Row, model: VoteModel) -> tuple[str, ...]:
    """Return what readers said of a row from feedback, in sentences.

    Args:
        row: The row.
        model: What votes are worth.
    """
    accepted, rejected = votes_on(row)
    notes = [model.sentence(accepted, rejected)]
    if accepted or rejected:
        notes.append(f"{model.basis[0].upper()}{model.basis[1:]}.")
    if accepted and rejected:
        notes.append("Readers disagree: read the passages before you decide.")
    if row.metadata.get("feedback_correction"):
        notes.append("The gold answer is a reader's correction.")
    if others := feedback_words(row, "feedback_corrections"):
        notes.append(f"Other corrections: {' | '.join(others)}")
    notes += [f"Remark of {note.rstrip('.')}." for note in feedback_words(row, "feedback_notes")]
    if gone := row.metadata.get("feedback_gone"):
        passages = "1 passage" if gone == 1 else f"{gone} passages"
        notes.append(f"{passages} that readers saw are no longer in the documents.")
    if row.metadata.get("answerable") is False:
        notes.append("Readers agree with the abstention: accepted, the row is unanswerable.")
    elif not row.reference_spans:
        notes.append("The votes propose no gold passage: choose one, or reject the row.")
    return tuple(notes)


@dataclass(frozen=True, slots=True)
class CandidateCounts:
    """What happened to a file of candidates: rows added, changed, removed, and left as they are.

    ``decided`` rows are those that people decided on; ``revoted`` are those of them that got
    further votes since.
    """

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    decided: int = 0
    revoted: int = 0


def rows_so_far(path: Path) -> tuple[Row, ...]:
    """Return the rows of a testset that may not exist yet, or be empty.

    Raises:
        TestsetError: The file cannot be read.
    """
    return read_rows(path) if path.exists() and path.stat().st_size else ()


def _replace_rows(rows: Collection[Row], path: Path) -> None:
    """Write rows; without any, remove the file: a testset without rows cannot be read."""
    if rows:
        write_rows(rows, path)
    else:
        path.unlink(missing_ok=True)


def store_candidates(path: Path, candidates: Sequence[Row], scope: str = "") -> CandidateCounts:
    """Write candidates of a scope into a testset; rows that people decided on stay as they are.

    Undecided rows of the scope whose feedback no longer exists are removed; other rows stay.

    Raises:
        TestsetError: The file cannot be read or written, or holds rows of another scope.
        StoreBusyError: Another process holds the folder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with folder_locked(path.parent, "the feedback"):
        before = {row.id: row for row in rows_so_far(path)}
        others = {
            str(r.metadata.get("feedback_scope", "")) for r in before.values() if is_feedback(r)
        }
        if others - {scope}:
            raise TestsetError(
                f"the file holds feedback of {_tenant(min(others - {scope}))}, and this is "
                f"feedback of {_tenant(scope)}",
                where=str(path),
                hint="tenants do not share a file: name another one",
            )
        new = {row.id: row for row in candidates}
        rows, counts = dict[str, Row](), dict.fromkeys(CandidateCounts.__slots__, 0)
        for name, row in before.items():
            if not is_candidate(row):
                rows[name] = row
                counts["decided"] += is_feedback(row)
                counts["revoted"] += name in new and votes_on(new[name]) != votes_on(row)
            elif name in new:
                # what is for confirmation stays so: somebody said it in an earlier call
                split = {"split": "confirm"} if row.metadata.get("split") == "confirm" else {}
                rows[name] = replace(new[name], metadata={**new[name].metadata, **split})
                counts["unchanged" if rows[name] == row else "changed"] += 1
            else:
                counts["removed"] += 1
        counts["added"] = len(new.keys() - rows.keys())
        rows |= {name: row for name, row in new.items() if name not in rows}
        if list(rows.values()) != list(before.values()):
            _replace_rows(rows.values(), path)
    return CandidateCounts(**counts)


def _tenant(scope: str) -> str:
    return f"the tenant {scope!r}" if scope else "no tenant"


@dataclass(frozen=True, slots=True)
class VoteAgreement:
    """How often people who reviewed the rows agree with the readers' votes.

    A person finds the answer right if they keep the row with a passage that the answer cited, and
    without a reader's correction; else wrong. Rows with as many votes for as against, and rows on
    which people are divided, are left out.

    Attributes:
        rows: Rows compared.
        same: Rows on which the majority of votes and the people agree; ``low`` and ``high`` are the
            95 % interval of its share (Clopper and Pearson 1934). None without rows.
        people: Agreement of people with each other and of the votes with them; see
            :func:`ragwright.measure.people_agreement`. Empty unless two people judged a row.
        model: What votes are worth, by these rows.
    """

    rows: int = 0
    same: int = 0
    low: float | None = None
    high: float | None = None
    people: PeopleAgreement = PeopleAgreement()
    model: VoteModel = VoteModel.assumed()

    @property
    def text(self) -> str:
        """The agreement and the worth of votes, in sentences."""
        if not self.rows:
            return f"No answer with votes has been reviewed yet. {self.model.summary}"
        interval = f" (95 % interval {self.low:.0%} to {self.high:.0%})"
        return (
            f"Votes and reviewers agree on {self.same} of {self.rows} answers{interval}. "
            f"{self.model.summary}"
        )


def vote_agreement(path: Path, rows: Sequence[Row]) -> VoteAgreement:
    """Compare the votes on the rows of a testset with the decisions in the log beside it.

    Raises:
        TestsetError: The log cannot be read.
    """
    voted = {row.id: row for row in rows if is_feedback(row) and any(votes_on(row))}
    verdicts: dict[str, dict[str, float]] = {}
    for decision in ReviewLog(path).decisions():
        if decision.row in voted:
            right = answer_right(voted[decision.row], decision)
            verdicts.setdefault(decision.row, {})[decision.by] = float(right)
    same = compared = 0
    tallies = {True: [0, 0], False: [0, 0]}
    for name, by_person in verdicts.items():
        share = sum(by_person.values()) / len(by_person)
        accepted, rejected = votes_on(voted[name])
        if share == 0.5:
            continue
        tallies[share > 0.5][0] += accepted
        tallies[share > 0.5][1] += accepted + rejected
        if accepted != rejected:
            compared += 1
            same += (accepted > rejected) == (share > 0.5)
    model = VoteModel.of_reviews(
        (tallies[True][0], tallies[True][1]), (tallies[False][0], tallies[False][1])
    )
    if not compared:
        return VoteAgreement(model=model)
    low, high = clopper_pearson(same, compared)
    majority = {n: float(votes_on(r)[0] > votes_on(r)[1]) for n, r in voted.items()}
    labels = {name: [*by_person.values()] for name, by_person in verdicts.items()}
    return VoteAgreement(compared, same, low, high, people_agreement(labels, majority), model)


def answer_right(row: Row, decision: Decision) -> bool:
    """True if a decision says that the answer which readers voted on was right.

    It is if the row was kept with a passage that the answer cited, and without a correction; or
    kept as unanswerable.
    """
    if decision.decision == "rejected":
        return False
    if row.metadata.get("answerable") is False:
        return True
    if row.metadata.get("feedback_correction") and decision.after.get("reference"):
        return False
    gold: Iterable[int] = decision.after.get("passages", gold_numbers(row))
    return bool({str(number) for number in gold} & set(feedback_words(row, "feedback_cited")))


def forget_feedback(
    folder: Path,
    document_id: str = "",
    scope: str = "",
    outputs: Collection[str] = (),
    *,
    dry_run: bool = False,
) -> int:
    """Delete the rows from feedback that hold text of a document, or belong to a scope or person.

    Also their lines in the logs of reviews: a correction may quote the document.

    Args:
        folder: Folder of testsets.
        document_id: The document, if one is forgotten.
        scope: The scope, if one is forgotten.
        outputs: Ids of the outputs that a person asked for or rated, if one is forgotten.
        dry_run: Count them only.

    Returns:
        The number of rows.

    Raises:
        TestsetError: A file cannot be read or written.
        StoreBusyError: Another process holds the folder.
    """
    gone = 0
    for path in sorted(folder.glob("*.jsonl")) if folder.is_dir() else ():
        if f'"{FEEDBACK}"' not in path.read_text("utf-8", "replace"):
            continue  # most files; some of them are no testsets
        with folder_locked(folder, "the erasure"):
            rows = read_rows(path)
            feedback = [row for row in rows if is_feedback(row)]
            lost = {row.id for row in feedback if _of(row, document_id, scope, outputs)}
            gone += len(lost)
            if lost and not dry_run:
                ReviewLog(path).forget(lost)
                _replace_rows([row for row in rows if row.id not in lost], path)
    return gone


def files_naming(folder: Path, person: str) -> list[Path]:
    """Files of test sets, reviews and labels that name a person, as a JSON text.

    Args:
        folder: Folder of testsets.
        person: The name.
    """
    named = json.dumps(person, ensure_ascii=False)
    files = sorted(folder.rglob("*.jsonl")) if folder.is_dir() else []
    return [path for path in files if named in path.read_text("utf-8", "replace")]


def _of(row: Row, document_id: str, scope: str, outputs: Collection[str]) -> bool:
    if scope:
        return row.metadata.get("feedback_scope") == scope
    if not document_id:
        return not set(outputs).isdisjoint(feedback_words(row, "feedback_outputs"))
    spans = (*row.retrieved_spans, *row.reference_spans)
    named: Mapping[str, None] = dict.fromkeys(feedback_words(row, "feedback_documents"))
    return document_id in named or any(span.document_id == document_id for span in spans)
