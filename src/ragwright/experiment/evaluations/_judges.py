"""Identity of judges, and whether two runs had the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...measure import parse_measure, rubric_names
from ._results import Evaluation

_NO_JUDGING = frozenset(
    {
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
    """The identity of the judge of a measure in a run.

    Empty if the evaluation does not contain it (a table of another tool).
    """
    manifest = evaluation.manifest
    if not manifest:
        return {}
    named = parse_measure(measure)
    if named.definition.kind != "judged":
        return {"measure": measure}
    judge = {
        key: value
        for key, value in manifest.get("judge", {}).items()
        if key not in _NO_JUDGING and _OF_ONE.get(key, named.name) == named.name
    }
    known = manifest.get("rubrics", {})
    rubrics = {name: known.get(name, "") for name in rubric_names(named)}
    prompts = manifest.get("judge_prompts", "")
    return {"measure": measure, "judge": judge, "prompts": prompts, "rubrics": rubrics}


def differing(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Names of the settings on which two judges differ, sorted."""
    found = []
    for part in ("judge", "rubrics"):
        mine, theirs = a.get(part, {}), b.get(part, {})
        keys = sorted(mine.keys() | theirs.keys())
        found += [f"{part}.{key}" for key in keys if mine.get(key) != theirs.get(key)]
    return found + (["prompts"] if a.get("prompts") != b.get("prompts") else [])


def scored_differently(a: Evaluation, b: Evaluation) -> dict[str, str]:
    """Measure -> why its scores in two evaluations cannot be compared.

    A judge of another model, with another rubric or another prompt is another measuring device.
    Repeats (``repeat``) only make it more precise. If a file does not name its judge, the scores
    count as comparable.
    """
    if not a.manifest or not b.manifest:
        return {}
    found = {}
    for measure in dict.fromkeys(summary.measure for summary in a.summaries):
        parts = _apart(a, b, measure)
        if parts:
            found[measure] = f"scored by two judges, which differ in {', '.join(parts)}"
    return found


def _apart(a: Evaluation, b: Evaluation, measure: str) -> list[str]:
    named = parse_measure(measure)
    key = _MODELS.get(named.name)
    if key is not None:
        models = [run.manifest.get("judge", {}).get(key) for run in (a, b)]
        return [f"judge.{key}"] if models[0] != models[1] else []
    if named.definition.kind != "judged":
        return []
    sides = [judge_identity(run, measure) for run in (a, b)]
    for part in ("judge", "rubrics"):
        if not all(part in run.manifest for run in (a, b)):
            sides = [{**side, part: {}} for side in sides]
    if not all("judge_prompts" in run.manifest for run in (a, b)):
        sides = [{**side, "prompts": ""} for side in sides]
    return [part for part in differing(*sides) if part != "judge.repeat"]
