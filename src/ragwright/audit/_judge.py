"""The judge of contradictions: a chat model decides on each candidate."""

from __future__ import annotations

from dataclasses import replace

from ..core import shipped_mapping
from ..flow import Flow
from ..measure import (
    Declined,
    JudgeCall,
    MeasureSetup,
    ReplyForm,
    asked,
    read_object,
    schema_text,
    text_of,
)
from ._records import Finding

_VERDICTS = ("contradiction", "compatible")


def judged_finding(finding: Finding, setup: MeasureSetup) -> Flow[Finding]:
    """A candidate with the judge's verdict.

    A contradiction is sure then, a compatible pair is not; nor is one without a usable reply, which
    says why.
    """
    texts = []
    for number, place in enumerate(finding.places[:2], start=1):
        texts += [(f"source {number}", place.source), (f"passage {number}", place.text)]
    call = JudgeCall(
        prompt="contradiction",
        texts=tuple(texts),
        read=_read_reply,
        schema=schema_text({"reason": {"type": "string"}, "verdict": {"enum": [*_VERDICTS, None]}}),
        stand_in=("contradiction", ""),
        values={},
        sources=tuple(dict.fromkeys(place.document_id for place in finding.places)),
        data=shipped_mapping("audit", "prompts/contradiction.yaml"),
        advice="These pairs are not judged. Name another judge.model.",
    )
    judged = yield from asked(call, setup)
    if judged.value is None:
        return replace(finding, verdict=f"not judged: {judged.why}")
    verdict, reason = judged.value
    text = f"{verdict}: {reason}" if reason else verdict
    return replace(finding, sure=verdict == "contradiction", verdict=text)


def _read_reply(text: str, form: ReplyForm, finish: str) -> tuple[str, str]:
    """The verdict and reason of a reply.

    Raises:
        ValueError: The reply does not have the form, with the fault.
        Declined: The verdict is null.
    """
    values = read_object(text, ("reason", "verdict"), finish)
    verdict, reason = values["verdict"], text_of(values["reason"], "reason")
    if verdict is None:
        raise Declined(f"the judge declined: {reason}")
    if verdict not in _VERDICTS:
        raise ValueError(f"the verdict is not one of {', '.join(_VERDICTS)}")
    return verdict, reason
