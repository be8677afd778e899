"""Readers' feedback on served answers as candidate rows of a testset, for review."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from ..core import GoldSpan, Row, case_folded, value_hash
from ..models import NO_MODEL
from ..project import Project
from ..testsets import FEEDBACK, store_candidates
from ._saving import project_outputs
from .outputs import Feedback, Outputs, output_row


def collect_feedback(project: Project, scope: str = "") -> Path:
    """Write what readers rated or corrected as candidate rows into a testset; return its path.

    A question for a persona is one row: of its latest correction, else of the latest feedback on
    it. Rows that a person decided on stay as they are. Answers that follow earlier turns are left
    out: of those turns only the questions are stored. Without feedback there is no file.

    Args:
        project: The project; the testset is ``testsets/feedback.jsonl``, for a tenant
            ``testsets/feedback-NAME.jsonl``.
        scope: The tenant whose answers are collected; those without a tenant by default.

    Raises:
        StoreError: The outputs cannot be read.
        TestsetError: The testset cannot be read or written.
    """
    outputs = project_outputs(project)
    given = sorted(outputs.feedback_on_answers(scope), key=lambda entry: bool(entry.correction))
    rows = {row.id: row for entry in given for row in _candidate_rows(outputs, entry)}
    name = f"-{quote(scope, safe='')}" if scope else ""
    path = project.folder.testsets / f"feedback{name}.jsonl"
    store_candidates(path, [*rows.values()])
    return path


def _candidate_rows(outputs: Outputs, given: Feedback) -> Iterator[Row]:
    """Yield an answer with feedback as a row, if it does not follow earlier turns.

    Its gold answer is the correction. Its gold passages are the citations that the reader named, or
    all if readers accept the answer. Snippets stand one by one, so only the best is proposed.
    """
    output = outputs.get(given.output)
    if output.request.get("asked_before"):
        return
    row = output_row(outputs, output)
    cited = outputs.batch(output.batch).details.get("citations", ())
    most = 1 if output.model == NO_MODEL else len(cited)
    gold = [cited[n - 1] for n in given.passages] or cited[: most * (output.verdict == "accepted")]
    spans = (GoldSpan(c["document_id"], c["start"], c["end"], c["quote"]) for c in gold)
    name = value_hash([case_folded(row.user_input), row.persona_name])[:12]
    yield replace(
        row,
        id=f"feedback-{name}",
        reference=given.correction,
        reference_spans=tuple(dict.fromkeys(spans)),
        metadata={
            **row.metadata,
            "kind": FEEDBACK,
            "scope": output.scope,
            "corrected": bool(given.correction),
        },
    )
