"""Certificates: files under version control, and the guard of answers that they give.

``promises/0001.json`` is written once and never changed. ``promise.json`` names the certificate in
force, with its threshold as a check.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from annotated_types import Gt, Lt

from ..answer import AnswerGuard, DraftOptions
from ..core import StoreError, replace_text, value_hash
from ..ledger import FileLock
from ..project import Project, ProjectFolder, Settings, configuration_of
from ._certify import ScoreCandidate, answer_score, name_score
from ._evaluate import judging
from ._results import read_plain

T = TypeVar("T")

_HINT = (
    "restore it from version control, or run `ragwright promise --withdraw` to answer without a "
    "promise"
)


Share = Annotated[float, Gt(0), Lt(1)]
"""A share that is neither 0 nor 1; checked when a certificate is read."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certified risk of wrong answers.

    Attributes:
        number: ``0001`` and so on, the name of its file.
        date: Day of the certification, ISO 8601, UTC.
        risk: Most of the answered questions that are wrong, as a share.
        confidence: Least chance that the certificate is right.
        score: Score of answers that the threshold is applied to.
        threshold: The loosest certified threshold.
        rule: When an answer is right.
        measure: The rule as given with ``--measure``; empty for gold answers.
        testset: Address of the test set.
        asked: Held-out questions.
        answered: Those answered at the threshold.
        errors: Wrong answers among them.
        bound: Exact upper bound of the risk.
        opening: How many times the confirm split was opened, this time included.
        alpha: Level of the test: (1 - confidence) / 2^(opening - 1).
        candidates: Scores that were tried on the tune split.
        personas: Names of the personas of the questions.
        snapshot: State of the index.
        parts: Hashes of settings and files.
        splits: Hashes of the tune and of the confirm rows.
        run: Run that holds the result.
        chance: Chance of passing, as estimated on the tune split before the opening.
        luck: Chance that the risk is above the stated one although it passed, estimated likewise.
        unanswerable: Held-out questions that are marked unanswerable.
        notes: Remarks for the reader.
    """

    number: str
    date: str
    risk: Share
    confidence: Share
    score: str
    threshold: float
    rule: str
    measure: str
    testset: str
    asked: int
    answered: int
    errors: int
    bound: float
    opening: int
    alpha: float
    candidates: tuple[ScoreCandidate, ...]
    personas: tuple[str, ...]
    snapshot: str
    parts: Mapping[str, str]
    splits: Mapping[str, str]
    run: str
    chance: float
    luck: float
    unanswerable: int
    notes: tuple[str, ...] = ()

    @property
    def coverage(self) -> float:
        """Share of the held-out questions that were answered."""
        return self.answered / self.asked if self.asked else 0.0

    @property
    def promised(self) -> str:
        """The promise as part of a sentence."""
        return f"at most {percent(self.risk)} of answers wrong"

    @property
    def line(self) -> str:
        """The promise in one sentence.

        ``At most 5 % of answers wrong, certified on 212 held-out questions on 2026-11-24; answers
        63 %``. Without unanswerable questions among them it says so.
        """
        share = percent(round(self.coverage, 2))
        none = "" if self.unanswerable else ", none of them unanswerable,"
        return (
            f"{self.promised[0].upper()}{self.promised[1:]}, certified on {self.asked} held-out "
            f"questions{none} on {self.date}; answers {share}"
        )


def percent(share: float) -> str:
    """A share for readers: ``5 %``, ``0.5 %``."""
    return f"{100 * share:.4g} %"


def now_text() -> str:
    """The time, ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def promise_lock(folder: ProjectFolder, what: str) -> FileLock:
    """The lock of everything that changes the promise of a project."""
    return FileLock(
        folder.data / "promise.lock", what, busy="the promise of this project is being changed"
    )


def certificates(folder: ProjectFolder) -> tuple[Certificate, ...]:
    """All certificates of a project, oldest first.

    Raises:
        StoreError: A file is damaged.
    """
    return tuple(map(_certificate_of, _certificate_files(folder)))


def certificate_in_force(folder: ProjectFolder) -> Certificate | None:
    """The certificate of the promise in force; None without a promise.

    Raises:
        StoreError: A file is damaged: without its threshold no answer may be shown.
    """
    if not folder.promise.exists():
        return None
    body = _read_json(folder.promise, dict[str, Any])
    if not {"certificate", "threshold"} <= body.keys():
        raise _damage_error(folder.promise, "certificate or threshold is missing")
    certificate = _certificate_of(folder.root / "promises" / f"{body['certificate']}.json")
    if certificate.threshold != body["threshold"]:
        raise _damage_error(folder.promise, f"threshold {body['threshold']!r}")
    return certificate


def write_certificate(folder: ProjectFolder, certificate: Certificate) -> Certificate:
    """Write a certificate under the next number; returns it with its number.

    Raises:
        StoreError: The file cannot be written.
    """
    taken = [int(path.stem) for path in _certificate_files(folder)]
    certificate = replace(certificate, number=f"{max(taken, default=0) + 1:04d}")
    path = folder.root / "promises" / f"{certificate.number}.json"
    _write_json(path, asdict(certificate), fresh=True)
    return certificate


def put_in_force(folder: ProjectFolder, certificate: Certificate) -> None:
    """Make a written certificate the promise in force.

    Raises:
        StoreError: ``promise.json`` cannot be written.
    """
    number, threshold = certificate.number, certificate.threshold
    body = {"certificate": number, "threshold": threshold, "since": now_text()}
    _write_json(folder.promise, body)


def withdraw_promise(folder: ProjectFolder) -> bool:
    """Answer without a promise from now on; certificates are kept. False if there was none.

    Raises:
        StoreError: Another process changes the promise, or the file cannot be removed.
    """
    with promise_lock(folder, "withdrawing"):
        known = folder.promise.exists()
        try:
            folder.promise.unlink(missing_ok=True)
        except OSError as error:
            raise _file_error("removed", folder.promise, error) from error
    return known


def _certificate_files(folder: ProjectFolder) -> list[Path]:
    return sorted((folder.root / "promises").glob("[0-9][0-9][0-9][0-9].json"))


def _certificate_of(path: Path) -> Certificate:
    if not path.exists():
        raise StoreError("the certificate in force is missing", where=str(path), hint=_HINT)
    certificate = _read_json(path, Certificate)
    if certificate.number != path.stem:
        raise _damage_error(path, f"number {certificate.number}")
    return certificate


def _read_json(path: Path, kind: type[T]) -> T:
    try:
        return read_plain(kind, json.loads(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise _damage_error(path, f"{type(error).__name__}: {error}") from error


def _damage_error(path: Path, detail: str) -> StoreError:
    what = f"this file of the promise is damaged ({detail.splitlines()[0]})"
    return StoreError(what, where=str(path), hint=_HINT)


def _write_json(path: Path, body: Mapping[str, Any], *, fresh: bool = False) -> None:
    text = json.dumps(body, ensure_ascii=False, indent=2, sort_keys=True)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, f"{text}\n", fresh=fresh)
    except OSError as error:
        raise _file_error("written", path, error) from error


def _file_error(what: str, path: Path, error: OSError) -> StoreError:
    return StoreError(f"the promise cannot be {what}: {error.strerror}", where=str(path))


def guard_of(project: Project) -> AnswerGuard | None:
    """The guard of a project's answers; None without a promise.

    Raises:
        StoreError: A file of the promise is damaged.
    """
    certificate = certificate_in_force(project.folder)
    if certificate is None:
        return None
    return AnswerGuard(
        certificate=certificate.number,
        score=name_score(certificate.score),
        threshold=certificate.threshold,
        score_of=partial(answer_score, certificate.score, setup=judging(project)),
        line=certificate.line,
        promised=certificate.promised,
        snapshot=certificate.snapshot,
        retrieve=project.settings.retrieve,
        personas=certificate.personas,
        suspended=changes_since(certificate.parts, hash_promised_parts(project)),
    )


def answering_settings_of(settings: Settings) -> Settings:
    """Settings under which every question gets an answer, of which the best are then shown.

    What has no influence on answers is as if it were not set.
    """
    answer = replace(settings.answer, threshold=0.0, draft=DraftOptions())
    return replace(settings, answer=answer)


def hash_promised_parts(project: Project) -> Mapping[str, str]:
    """Part -> hash, of all that determines answers except the index.

    ``model`` is the model that answers; the other parts are sections of the project file, and
    paths of prompts, personas and other files.
    """
    settings = answering_settings_of(project.settings)
    configuration = configuration_of(project.folder, settings)
    sections = {name: dict(values) for name, values in configuration.settings.items()}
    sections.get("answer", {}).pop("model", None)
    hashes = {name: value_hash(value) for name, value in sections.items() if value}
    return {**hashes, "model": settings.answer.model, **configuration.files}


def changes_since(then: Mapping[str, str], now: Mapping[str, str]) -> str:
    """What changed, as the beginning of a sentence; empty if nothing did."""
    changed = [name for name in sorted({*then, *now}) if then.get(name) != now.get(name)]
    files = [name for name in changed if "/" in name or "." in name]
    sections = [name for name in changed if name not in (*files, "model", "prompt")]
    shown = [f"the {name} changed" for name in ("model", "prompt") if name in changed]
    named = {"settings": sections, "files": files}
    shown += [f"{kind} changed ({', '.join(names)})" for kind, names in named.items() if names]
    return ", ".join(shown)


def suspending_changes(project: Project, certificate: Certificate) -> str:
    """What changed since a certificate was made, documents included; empty if nothing did."""
    changes = changes_since(certificate.parts, hash_promised_parts(project))
    spec = project.index_spec
    held = project.store.holds(spec) and project.store.snapshot(spec) == certificate.snapshot
    return ", ".join(filter(None, (changes, "" if held else "the documents changed")))
