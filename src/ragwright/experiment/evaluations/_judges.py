"""Identity of judges, and comparison of the judges of two runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...measure import parse_measure, rubric_names
from ._results import Evaluation

_NO_JUDGING = frozenset(
    {
        "ask_back_cues",
        "bytes_per_token",
        "completer",
        "error_cues",
        "further_rejection_cues",
        "rejection_cues",
        "token_model",
        "window",
    }
)
"""Keys of the section `judge` that do not affect judgments."""

_OF_ONE = {"embedder": "QuestionSimilarity", "questions": "QuestionSimilarity", "spans": "Q2"}
"""Keys that affect the judgments of one measure only."""

_MODELS = {
    "BERTScore": "token_model",
    "ChunkScore": "embedder",
    "MoverScore": "token_model",
    "Perplexity": "completer",
    "QADistance": "embedder",
}
"""Keys that determine measures of models without a judge."""


def judge_identity(evaluation: Evaluation, measure: str) -> dict[str, Any]:
    """Return the identity of the judge of a measure in a run.

    Empty if the evaluation does not contain it (a table of another tool).
    """
    manifest = evaluation.manifest
    if not manifest:
        return {}
    parsed = parse_measure(measure)
    if parsed.definition.kind != "judged":
        return {"measure": measure}
    judge = {
        key: value
        for key, value in manifest.get("judge", {}).items()
        if key not in _NO_JUDGING and _OF_ONE.get(key, parsed.name) == parsed.name
    }
    hashes = manifest.get("rubrics", {})
    rubrics = {name: hashes.get(name, "") for name in rubric_names(parsed)}
    prompts = manifest.get("judge_prompts", "")
    return {"measure": measure, "judge": judge, "prompts": prompts, "rubrics": rubrics}


def differing(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Return the names of the settings on which two judges differ, sorted."""
    names = []
    for part in ("judge", "rubrics"):
        own, theirs = a.get(part, {}), b.get(part, {})
        keys = sorted(own.keys() | theirs.keys())
        names += [f"{part}.{key}" for key in keys if own.get(key) != theirs.get(key)]
    return names + (["prompts"] if a.get("prompts") != b.get("prompts") else [])


def scored_differently(a: Evaluation, b: Evaluation) -> dict[str, str]:
    """Return the measures whose scores in two evaluations are not comparable, with the reason.

    A judge of another model, with another rubric or another prompt is another measuring device.
    Repeats (``repeat``) only make it more precise. If a file does not name its judge, the scores
    count as comparable.
    """
    if not a.manifest or not b.manifest:
        return {}
    reasons = {}
    for measure in dict.fromkeys(summary.measure for summary in a.summaries):
        parts = _judge_differences(a, b, measure)
        if parts:
            reasons[measure] = f"scored by two judges, which differ in {', '.join(parts)}"
    return reasons


def _judge_differences(a: Evaluation, b: Evaluation, measure: str) -> list[str]:
    parsed = parse_measure(measure)
    key = _MODELS.get(parsed.name)
    if key is not None:
        models = [run.manifest.get("judge", {}).get(key) for run in (a, b)]
        return [f"judge.{key}"] if models[0] != models[1] else []
    if parsed.definition.kind != "judged":
        return []
    sides = [judge_identity(run, measure) for run in (a, b)]
    for part in ("judge", "rubrics"):
        if not all(part in run.manifest for run in (a, b)):
            sides = [{**side, part: {}} for side in sides]
    if not all("judge_prompts" in run.manifest for run in (a, b)):
        sides = [{**side, "prompts": ""} for side in sides]
    return [part for part in differing(*sides) if part != "judge.repeat"]
