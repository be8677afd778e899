"""Watching a promise: labels of served answers against the stated risk.

Two kinds of labels are kept apart. *Sampled* labels are of answers that were drawn at random:
scores of the continuous evaluation where the promise is about a measure, and labels that people
gave to a sample. They can break a promise. *Votes* come from users who chose to vote; who votes
depends on the answer, so that they can warn and prove nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import Score, TestsetError, appending, counted, current_user
from ..drafting import OutputQuery, project_outputs
from ..testsets import objects_of
from ._certificate import (
    Certificate,
    Standing,
    now_text,
    percent,
    promise_lock,
    standing_of,
    write_standing,
)
from ._certify import broken_evidence
from ._scores import RightRule, parse_right_rule

if TYPE_CHECKING:
    from ..project import Project, ProjectFolder


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels of answers that were shown under a promise.

    Attributes:
        count: Answers with a label.
        errors: Wrong ones among them.
        evidence: Evidence against the stated risk; see :func:`broken_evidence`.
    """

    count: int
    errors: int
    evidence: float


@dataclass(frozen=True, slots=True)
class Watching:
    """What later labels say about the promise in force.

    Attributes:
        certificate: The certificate.
        standing: The promise after this look.
        sampled: Labels of a random sample of the answers at the threshold in use.
        votes: Votes of users on such answers.
        limit: Evidence from which on the sampled labels break the promise: 1 / (1 - confidence).
        changed: True if this look changed the promise.
    """

    certificate: Certificate
    standing: Standing
    sampled: Labels
    votes: Labels
    limit: float
    changed: bool = False

    @property
    def lines(self) -> tuple[str, ...]:
        """What the labels say, for readers."""
        risk = percent(self.certificate.risk)
        sampled, votes = self.sampled, self.votes
        broken = sampled.evidence >= self.limit
        verdict = "contradict the promise" if broken else "do not contradict it"
        lines = [
            f"labels of a random sample: {sampled.errors} of {sampled.count} wrong; they {verdict}"
            if sampled.count
            else "labels of a random sample: none yet"
        ]
        if votes.count:
            warning = (
                f"this would contradict {risk} in a random sample: look at the rejected answers"
                if votes.evidence >= self.limit
                else "no sign of more errors than promised"
            )
            lines.append(
                f"votes of users: {votes.errors} of {votes.count} rejected; {warning} (voters are "
                "not a random sample: votes neither break nor confirm a promise)"
            )
        return (*lines, *((self.standing.reason,) if self.standing.reason else ()))


def watch_promise(project: Project) -> Watching | None:
    """Look at the labels of answers served under the promise in force; None without a promise.

    Where sampled labels contradict it, the threshold falls back to the loosest stricter one of the
    certified sequence that they do not contradict; without one, the promise is broken. This may be
    called at any time and as often as wanted: a promise that is kept breaks with chance
    1 - confidence or less over all looks.

    Raises:
        StoreError: A file of the promise is damaged.
        TestsetError: The file of labels is damaged.
    """
    standing = standing_of(project.folder)
    if standing is None:
        return None
    certificate, state = standing
    served = _Served(project, certificate)
    watching = served.look(state)
    if watching.sampled.evidence < watching.limit or state.state == "broken":
        return watching
    fallen = served.fallen_from(state)
    lock = promise_lock(project.folder, "watching")
    if not lock.acquire():
        return watching  # whoever changes the promise goes first; the next look finds the same
    try:
        if standing_of(project.folder) != standing:
            return watching
        write_standing(project.folder, fallen)
    finally:
        lock.release()
    return replace(served.look(fallen), changed=True)


def labels_file(folder: ProjectFolder) -> Path:
    """The labels that people gave to samples of served answers, under version control."""
    return folder.root / "promises" / "labels.jsonl"


def add_labels(project: Project, path: Path, by: str = "") -> int:
    """Keep people's labels of a random sample of served answers; returns their number.

    Args:
        project: The project.
        path: JSONL, one object per answer: ``output``, its id as in `ragwright outputs`, and
            ``right``, true or false. The answers must be a random sample, with a label for each.
        by: Who labelled them; by default the user of this machine.

    Raises:
        TestsetError: A line lacks one of the two, or the file is empty.
        StoreError: An output is unknown.
    """
    outputs = project_outputs(project)
    labels = []
    for where, value in objects_of(path):
        output, right = _label_of(value, where)
        outputs.get(output)
        labels.append(
            {"output": output, "right": right, "by": by or current_user(), "at": now_text()}
        )
    if not labels:
        raise TestsetError("the file holds no label", where=str(path))
    kept = labels_file(project.folder)
    kept.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(label, ensure_ascii=False) + "\n" for label in labels)
    with promise_lock(project.folder, "labels"), appending(kept, lines.encode()):
        return len(labels)


def _label_of(value: Mapping[str, Any], where: str) -> tuple[str, bool]:
    output, right = value.get("output"), value.get("right")
    if isinstance(right, int | float) and right in (0, 1):
        right = bool(right)
    if not isinstance(output, str) or not isinstance(right, bool):
        raise TestsetError(
            "a label needs output (the id of an answer) and right (true or false)",
            where=where,
            hint='for example {"output": "12.1", "right": false}',
        )
    return output, right


class _Served:
    """The labelled answers that were shown under a certificate."""

    def __init__(self, project: Project, certificate: Certificate) -> None:
        self._certificate = certificate
        self._limit = 1 / (1 - certificate.confidence)
        rule = parse_right_rule(certificate.measure)
        self._outputs = project_outputs(project)
        sampled = dict(self._scored_labels(rule))
        kept = labels_file(project.folder)
        for where, value in objects_of(kept) if kept.exists() else ():
            output, right = _label_of(value, where)
            sampled[output] = not right
        self._sampled: list[tuple[float, bool]] = []
        self._votes: list[tuple[float, bool]] = []
        for answer in self._outputs.find(OutputQuery(kind="text", scope=None)):
            promise = answer.details.get("promise") or {}
            score = promise.get("score")
            if promise.get("certificate") != certificate.number or not promise.get("holds"):
                continue
            if score is None or answer.details.get("abstained"):
                continue
            if answer.id in sampled:
                self._sampled.append((score, sampled[answer.id]))
            elif answer.verdict:
                self._votes.append((score, answer.verdict == "rejected"))

    def _scored_labels(self, rule: RightRule) -> Iterator[tuple[str, bool]]:
        """Answers of the continuous evaluation, which draws them at random: id -> wrong."""
        if rule.rule is None:
            return
        name = str(rule.rule.measure)
        for score in self._outputs.scores.all(None):
            if score.measure == name and score.state == "scored":
                wrong = rule.wrong_score(Score(name, "scored", score.value))
                if wrong is not None:
                    yield score.output, wrong

    def look(self, standing: Standing) -> Watching:
        """What the labels say at the threshold in use."""
        return Watching(
            self._certificate,
            standing,
            self._labels(self._sampled, standing.threshold),
            self._labels(self._votes, standing.threshold),
            self._limit,
        )

    def fallen_from(self, standing: Standing) -> Standing:
        """The promise at the loosest stricter threshold that the labels do not contradict."""
        now = self._labels(self._sampled, standing.threshold)
        reason = f"{now.errors} of {counted(now.count, 'checked answer')} were wrong"
        stricter = [s for s in self._certificate.steps if s.threshold > standing.threshold]
        for step in reversed(stricter):
            if self._labels(self._sampled, step.threshold).evidence < self._limit:
                return replace(
                    standing,
                    threshold=step.threshold,
                    state="fell back",
                    reason=f"{reason}; a stricter threshold is in use",
                    since=now_text(),
                )
        return replace(standing, state="broken", reason=reason, since=now_text())

    def _labels(self, labels: Sequence[tuple[float, bool]], threshold: float) -> Labels:
        wrong = [bad for score, bad in labels if score >= threshold]
        return Labels(len(wrong), sum(wrong), broken_evidence(wrong, self._certificate.risk))
