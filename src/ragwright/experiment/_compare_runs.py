"""Comparison of two evaluations row by row: clusters, and the comparability of scores."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core import Row, TestsetError, count_noun
from ..measure import (
    Comparisons,
    Measure,
    MeasureScale,
    Summary,
    compare_rows,
    pair_by_question,
    parse_measure,
    rubric_names,
)
from ..project import project_keys
from ._clusters import QUESTION, clusters_of_results, clusters_of_rows, read_shared_values
from ._results import Evaluation, RowResult, evaluation_of

_NO_JUDGING = frozenset({"completer", "error_cues", "rejection_cues", "token_model", "window"})
"""Keys of the section `judge` that do not affect judgments."""

_OF_ONE = {"embedder": "QuestionSimilarity", "spans": "Q2"}
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
    settings = manifest.get("judge", {})
    if parsed.definition.kind != "judged":
        model = _MODELS.get(parsed.name)
        return {"measure": measure, **({"judge": {model: settings.get(model)}} if model else {})}
    hashes = manifest.get("rubrics", {})
    return {
        "measure": measure,
        "judge": {
            key: value
            for key, value in settings.items()
            if key not in _NO_JUDGING and _OF_ONE.get(key, parsed.name) == parsed.name
        },
        "prompts": manifest.get("judge_prompts", ""),
        "rubrics": {name: hashes.get(name, "") for name in rubric_names(parsed)},
    }


def differing(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Return the names of the settings on which two judges differ, sorted."""
    names = []
    for part in ("judge", "rubrics"):
        own, theirs = a.get(part, {}), b.get(part, {})
        keys = sorted(own.keys() | theirs.keys())
        names += [f"{part}.{key}" for key in keys if own.get(key) != theirs.get(key)]
    return names + (["prompts"] if a.get("prompts") != b.get("prompts") else [])


def find_scored_differently(a: Evaluation, b: Evaluation) -> dict[str, str]:
    """Return the measures whose scores in two evaluations are not comparable, with the reason.

    A judge of another model, with another rubric or another prompt is another measuring device.
    Repeats (``repeat``) only make it more precise. If a file does not name its judge, the scores
    count as comparable.
    """
    if not a.manifest or not b.manifest:
        return {}
    reasons = {}
    for measure in dict.fromkeys(summary.measure for summary in a.summaries):
        parts = differing(judge_identity(a, measure), judge_identity(b, measure))
        if named := ", ".join(part for part in parts if part != "judge.repeat"):
            reasons[measure] = f"scored by two judges, which differ in {named}"
    return reasons


CEILING = 0.95
"""Share of a scale from which on the current settings leave hardly anything to gain."""

ADVICE = "Put 30 to 50 of those into the confirm split."


def questions_of(rows: Iterable[Row | RowResult]) -> str:
    """``generated questions`` if a program made all of them; empty if people asked all."""
    made, people = _origins(rows)
    if not made:
        return ""
    return "partly generated questions" if people else "generated questions"


def grounds(rows: Iterable[Row | RowResult], current: Iterable[Summary] = ()) -> tuple[str, ...]:
    """The sentences that stand beside every verdict on these rows.

    Args:
        rows: Rows of the verdict, or their results.
        current: Summaries of the current settings, whose ceiling is named.
    """
    made, people = _origins(rows)
    sentences = []
    if made:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(made.items()))
        total = made.total()
        these = f"These {count_noun(total, 'question')}"
        if people:
            these = f"{total:,} of these {total + people:,} questions"
        were = "was" if total + people == 1 else "were"
        sentences.append(
            f"{these} {were} made from the passages ({kinds}). A difference here is not shown for "
            f"people's questions. {ADVICE}"
        )
    for summary in current:
        mean, scale = summary.deciding[0], summary.scale
        if mean is None or scale is None or scale.high is None:
            continue
        share = (mean - scale.low) / (scale.high - scale.low)
        if (share if scale.higher_is_better else 1 - share) >= CEILING:
            sentences.append(
                f"The current settings have {summary.measure} {mean:.4f} already, and "
                f"{scale.high if scale.higher_is_better else scale.low:g} is the best: these "
                "questions hardly show what is better."
            )
    return tuple(sentences)


def _origins(rows: Iterable[Row | RowResult]) -> tuple[Counter[str], int]:
    """Generated questions by kind, and the number of people's; personas count once."""
    kinds: dict[str, str] = {}
    for row in rows:
        name = row.id if isinstance(row, Row) else row.row_id
        facts = read_shared_values(row)
        generated = "".join(facts.get("generated", ())).lower() in ("true", "yes", "1")
        kind = " ".join(facts.get("kind", ())) or "model"
        kinds[facts.get(QUESTION, (name,))[0]] = kind if generated else ""
    return Counter(filter(None, kinds.values())), sum(not kind for kind in kinds.values())


def compare_evaluations(
    a: Evaluation, b: Evaluation, *, seed: int = 0, clusters: Mapping[str, Hashable] | None = None
) -> Comparisons:
    """Compare the rows of b with those of a; see :func:`ragwright.measure.compare_rows`.

    Rows that have only their number for an id are paired by their questions. A measure scored by
    two different judges gets no verdict; see :func:`find_scored_differently`.

    Args:
        a: The baseline evaluation.
        b: The evaluation that the verdicts are about.
        seed: Seed of flips and resampling.
        clusters: Row id -> cluster; empty if rows are independent, None to cluster by gold
            documents (:func:`clusters_of_results`).

    Raises:
        MeasureError: They share no row or no measure.
        TestsetError: A row has different questions in the two evaluations.
    """
    asked, also = (
        {row.row_id: q for row in run.results for q in read_shared_values(row).get(QUESTION, ())}
        for run in (a, b)
    )
    different = [row for row in asked if row in also and asked[row] != also[row]]
    numbered = all(map(str.isdecimal, asked)) or all(map(str.isdecimal, also))
    if different and not numbered:
        raise TestsetError(
            f"row {different[0]!r} has different questions in the two runs",
            hint="compare runs of one testset",
        )
    if different or (
        numbered and asked and also and not asked.keys() & also.keys()
    ):  # without ids of their own
        ids, clusters = pair_by_question(asked.items(), also.items()), None
        a = replace(
            a, results=tuple(replace(r, row_id=ids.get(r.row_id, r.row_id)) for r in a.results)
        )
    sides = [{result.row_id: result.scores for result in run.results} for run in (a, b)]
    scales: dict[str, MeasureScale | None] = {}
    for summary in (*a.summaries, *b.summaries):
        if scales.setdefault(summary.measure, summary.scale) != summary.scale:
            raise TestsetError(
                f"{summary.measure} is on the scale {scales[summary.measure]} in one run and "
                f"{summary.scale} in the other",
                hint="score both by the same rubric file",
            )
    if clusters is None:
        clusters = clusters_of_results([*a.results, *b.results])
    return compare_rows(
        *sides,
        seed=seed,
        clusters=clusters or None,
        scales=scales,
        incomparable=find_scored_differently(a, b),
        questions=questions_of(a.results),
    )


_APART = frozenset({"baseline", "index_spec", "measures", "scales"})
"""Settings that a comparison shows in other places; `index` has those of its key."""

_DOCUMENTS = "documents"
_HASHED = {_DOCUMENTS: "documents in the index", "rows": "rows of the testset"}
"""Settings that are stored as a hash -> their description."""

_HEX = re.compile("[0-9a-f]{12,}")
_LONG = 60
"""Most characters of a value in a description."""


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting that differs between two runs: its key and both values, JSON-able."""

    key: str
    a: Any
    b: Any

    @property
    def text(self) -> str:
        """The change as text, such as ``embed.model: none -> st:all-MiniLM-L6-v2``."""
        if any(isinstance(v, str) and _HEX.fullmatch(v) for v in (self.a, self.b)):
            return f"{_HASHED.get(self.key, self.key.removesuffix(' (hash)'))}: changed"
        return f"{self.key}: {_value_text(self.a)} -> {_value_text(self.b)}"


def list_changed_settings(a: Evaluation, b: Evaluation) -> tuple[SettingChange, ...]:
    """Return settings that differ between two evaluations, by key; none if one is unknown.

    A key that a run left at its default is shown with the present default. Sections that only one
    of them has (a run that judges stored answers retrieves nothing) are ignored. The index is shown
    by its settings, and its content by ``documents``.
    """
    if not a.manifest or not b.manifest:
        return ()
    first, second = _flat_manifest(a.manifest), _flat_manifest(b.manifest)
    defaults = {name: default for name, _, default, _ in project_keys()}
    changes = []
    for key in sorted(first.keys() | second.keys()):
        section = key.partition(".")[0]
        if section in _APART or not all(_has_section(side.manifest, section) for side in (a, b)):
            continue
        known = (side.get(key, defaults.get(key)) for side in (first, second))
        values = [list(value) if isinstance(value, tuple) else value for value in known]
        if values[0] != values[1] and not all(value is None or value == {} for value in values):
            changes.append(SettingChange(key, *values))
    return tuple(changes)


def _flat_manifest(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest by dotted key, as in a project file."""
    values = {key.removeprefix("index."): value for key, value in _flat_items(manifest)}
    state = values.pop("snapshot", None)
    if state is not None:
        values[_DOCUMENTS] = str(state).partition("@")[2] or state
    return values


def _has_section(manifest: Mapping[str, Any], section: str) -> bool:
    """True if a manifest holds a section of the project file."""
    if section == _DOCUMENTS:
        return "snapshot" in manifest
    return section in manifest or section in manifest.get("index", {})


def _flat_items(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Return (dotted key, value) of nested mappings."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat_items(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def _value_text(value: Any) -> str:
    """Return a setting on one line; a long text is cut."""
    if value is None or value in ("", [], {}, ()):
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"


_FEW = 20
"""Below this number of scored rows a slice gets a note."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The summaries of the rows that share one value, such as a persona or topic."""

    by: str
    value: str
    summaries: tuple[Summary, ...]
    notes: tuple[str, ...] = ()


def slices(
    results: Sequence[RowResult],
    rows: Iterable[Row],
    by: str,
    measures: Sequence[Measure],
    *,
    seed: int = 0,
) -> tuple[Slice, ...]:
    """Summarise the rows of each persona (``persona_name``) or each value of a metadata field.

    Rows with several values are in several slices; rows without the field have the empty value,
    last.

    Raises:
        TestsetError: No row has the field.
    """
    rows = tuple(rows)
    clusters = clusters_of_rows(rows)
    by_row = {row.id: row_values(row, by) for row in rows}
    by_value: dict[str, list[RowResult]] = {}
    for result in results:
        for value in by_row.get(result.row_id, ("",)):
            by_value.setdefault(value, []).append(result)
    if not by_value.keys() - {""}:
        known = dict.fromkeys(name for row in rows for name in row.metadata)
        raise TestsetError(
            f"no row has a value in {by!r}",
            hint=f"columns of these rows: {', '.join(known) or 'none besides the known fields'}",
        )
    parts = []
    for value in sorted(by_value, key=lambda value: (not value, value)):
        groups = [clusters.get(result.row_id, result.row_id) for result in by_value[value]]
        summaries = evaluation_of(
            by_value[value], measures, seed=seed, clusters=groups if clusters else None
        ).summaries
        few = [s.measure for s in summaries if s.n < _FEW]
        note = f"fewer than {_FEW} scored rows: {', '.join(few)}"
        parts.append(Slice(by, value, summaries, (note,) if few else ()))
    return tuple(parts)


def row_values(row: Row, by: str) -> tuple[str, ...]:
    """Return the values of a row in a field: its persona, or metadata; one empty text if none."""
    value = row.persona_name if by == "persona_name" else row.metadata.get(by, "")
    return (value if isinstance(value, tuple) else (str(value),)) or ("",)
