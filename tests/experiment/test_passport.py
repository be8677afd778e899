"""Passports of judges: figures known by hand or from scipy, on small sets of people's verdicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.data_sets import DATA
from scipy.stats import kendalltau, spearmanr

from ragwright.core import Row, Score, TestsetError
from ragwright.experiment import (
    Dimension,
    JudgeFigures,
    PassportOptions,
    PeopleSet,
    RatedAnswer,
    Verdicts,
    check_people,
    free_passport,
    free_verdicts,
    list_passports,
    passport_from,
    passport_json,
    passport_of_judge,
    read_passport,
    read_recorded_verdicts,
    record_passport,
)
from ragwright.measure import MeasureScale, parse_measures

LABELS = [1, 4, 2, 3, 4, 1, 2, 4, 3, 1, 4, 2]
VERDICTS = [0.1, 0.9, 0.4, 0.5, 0.8, 0.3, 0.2, 0.7, 0.6, 0.2, 1.0, 0.5]
SPEARMAN = spearmanr(LABELS, VERDICTS)[0]


def people_set(raters: int = 1) -> PeopleSet:
    """Twelve answers of two systems to six tasks, labelled 1 to 4."""
    rated = tuple(
        RatedAnswer(
            Row(f"r{at}", f"question {at // 2}", f"answer {'word ' * at}"),
            {"faithfulness": {f"p{rater}": float(label) for rater in range(raters)}},
            f"task {at // 2}",
            "ab"[at % 2],
            {"old judge": verdict},
        )
        for at, (label, verdict) in enumerate(zip(LABELS, VERDICTS, strict=True))
    )
    dimension = Dimension("faithfulness", 1, 4)
    return PeopleSet("small", rated, (dimension,), scales={"old judge": (0, 1)})


def verdicts_of(values: list[float], scale: MeasureScale | None = None) -> Verdicts:
    scores = {f"r{at}": Score("judge", "scored", value) for at, value in enumerate(values)}
    return Verdicts("judge", "recorded", scores, scale, identity={"verdicts": "judge"})


def figures(people: PeopleSet, verdicts: list[Verdicts] | None = None) -> JudgeFigures:
    """Of the only judge and dimension."""
    [judge] = passport_from(people, verdicts or read_recorded_verdicts(people)).judges
    [found] = judge.dimensions.values()
    return found


def test_correlations_are_those_of_scipy_and_bias_is_in_points_of_people() -> None:
    found = figures(people_set())
    assert found.spearman.value == pytest.approx(SPEARMAN)
    assert found.kendall.value == pytest.approx(kendalltau(LABELS, VERDICTS)[0])
    assert (found.rows, found.tasks, found.auc.value) == (12, 6, None)  # labels are not binary
    assert (found.spearman.low or 1) < SPEARMAN <= (found.spearman.high or 0)
    off = [1 + 3 * ours - theirs for ours, theirs in zip(VERDICTS, LABELS, strict=True)]
    assert found.bias.value == pytest.approx(sum(off) / 12)
    assert "0-1 mapped to 1-4" in found.mapped
    by_system = {group.name: group.bias.value for group in found.groups["system"]}
    assert by_system == pytest.approx({"a": sum(off[0::2]) / 6, "b": sum(off[1::2]) / 6})
    # Lower is better is turned.
    turned = verdicts_of([1 - one for one in VERDICTS], MeasureScale(0, 1, False))
    assert figures(people_set(), [turned]).spearman.value == pytest.approx(SPEARMAN)


def test_kappa_only_on_peoples_points_and_auc_only_of_binary_labels() -> None:
    rated = tuple(
        RatedAnswer(Row(f"r{at}", "q"), {"relevance": {"p": float(at < 5)}}, f"t{at}")
        for at in range(10)
    )
    people = PeopleSet("binary", rated, (Dimension("relevance", 0, 1),))
    # 4 of 5 relevant and 4 of 5 others are right: observed .8, by chance .5
    found = figures(people, [verdicts_of([float(at < 4 or at == 9) for at in range(10)])])
    assert found.kappa.value == pytest.approx(0.6)
    assert found.auc.value == pytest.approx(0.8)
    spread = verdicts_of([1 - at / 20 for at in range(10)], MeasureScale(0, 1))
    assert figures(people, [spread]).auc.value == 1


def test_people_have_a_ceiling_only_with_two_labels() -> None:
    [one], [two] = (
        passport_from(people_set(raters), read_recorded_verdicts(people_set())).people
        for raters in (1, 2)
    )
    assert (one.twice, one.spearman.value) == (0, None)
    assert two.spearman.value == pytest.approx(1)
    assert (two.labels, two.raters) == (24, 2)


def test_a_pair_is_scored_by_its_difference() -> None:
    answers = [("cat", "dog", -2.0), ("dog", "cat", 2.0), ("cat", "cat", 0.0), ("ox", "cat", 1.0)]
    rated = tuple(
        RatedAnswer(
            Row(f"p{at}", "q", first, "cat"),
            {"overall": {"p": label}},
            f"t{at}",
            second=Row(f"p{at}-second", "q", second, "cat"),
        )
        for at, (first, second, label) in enumerate(answers)
    )
    people = PeopleSet("pairs", rated, (Dimension("overall", -2, 2),))
    [judge] = free_verdicts(people, parse_measures("ExactMatch"))
    assert [judge.scores[f"p{at}"].value for at in range(4)] == [-1, 1, 0, 1]
    assert judge.scale == MeasureScale(-1, 1)


def test_unusable_replies_are_counted_and_never_scored() -> None:
    scores = {f"r{at}": Score("F", "scored", float(LABELS[at])) for at in range(9)}
    scores |= {f"r{at}": Score("F", "judge_invalid", reason="no JSON") for at in range(9, 12)}
    judge = Verdicts("F by m", "model", scores, MeasureScale(1, 4), "Faithfulness", "m")
    [seen] = passport_from(people_set(), [judge]).judges
    assert seen.unusable.value == pytest.approx(0.25)
    assert seen.states == {"judge_invalid": 3, "scored": 9}
    assert seen.dimensions["faithfulness"].rows == 9


def test_advice_prefers_what_is_free_unless_the_judge_is_better() -> None:
    words = [f"w{at}" for at in range(40)]
    shown = (" ".join(words[:20]),)
    rated = tuple(
        RatedAnswer(
            Row(f"r{at}", "q", " ".join(words[: at + 1]), retrieved_contexts=shown),
            {"faithfulness": {"p": float(at < 20)}},
            f"t{at}",
        )
        for at in range(40)
    )
    people = PeopleSet("words", rated, (Dimension("faithfulness", 0, 1),))
    free = free_verdicts(people, parse_measures("KPrecision"))

    def advised(values: list[float]) -> list[JudgeFigures]:
        passport = passport_from(people, [verdicts_of(values), *free])
        found = [passport.judge(name) for name in ("judge", "KPrecision")]
        return [one.dimensions["faithfulness"] for one in found if one is not None]

    bad, good = advised([float(at % 2) for at in range(40)])
    assert (bad.trusted, good.trusted) == (False, True)
    assert bad.advice.startswith("Do not use judge for faithfulness")
    [difference] = bad.versus
    assert difference.name == "KPrecision"
    assert (difference.spearman.high or 0) < 0
    # above chance, and still below what is free: both are named
    weak, _ = advised([float((at < 20) != (at % 5 == 0)) for at in range(40)])
    assert not weak.trusted
    head = "Use KPrecision instead of judge for faithfulness: it is free and"
    assert weak.advice.startswith(head)
    assert "difference of Spearman +0." in weak.advice


def test_the_document_reads_back_and_a_gate_finds_it_by_the_judge(tmp_path: Path) -> None:
    people = people_set(2)
    passport = passport_from(people, read_recorded_verdicts(people))
    body = json.loads(json.dumps(passport_json(passport)))
    spearman = body["judges"]["old judge"]["faithfulness"]["spearman"]
    assert spearman.keys() == {"value", "low", "high"}
    path = record_passport(tmp_path, passport)
    assert read_passport(path) == passport
    assert record_passport(tmp_path, passport) == path  # the same judges and set: one file
    assert [known for known, _ in list_passports(tmp_path)] == [path]
    identity = passport.judges[0].identity
    found = passport_of_judge(tmp_path, identity)
    assert found is not None
    assert found[2].name == "old judge"
    assert passport_of_judge(tmp_path, {**identity, "hash": "another"}) is None
    path.write_text("{}")
    with pytest.raises(TestsetError, match="not a passport"):
        read_passport(path)


def rated(label: float) -> RatedAnswer:
    return RatedAnswer(Row("r", "q"), {"d": {"p": label}}, "t")


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ((rated(5.0),), "off the scale"),
        ((rated(float("nan")),), "off the scale"),
        ((), "no label"),
        ((rated(1.0), rated(1.0)), "occurs twice"),
    ],
    ids=["off the scale", "no number", "an empty set", "a double id"],
)
def test_a_set_that_cannot_be_is_refused(answers: tuple[RatedAnswer, ...], message: str) -> None:
    with pytest.raises(TestsetError, match=message):
        check_people(PeopleSet("s", answers, (Dimension("d", 1, 4),)))


@pytest.mark.needs_data
@pytest.mark.slow
def test_the_figures_of_mtrag() -> None:
    how = PassportOptions(measures="KPrecision(content+bigrams)")
    passport = free_passport(f"mtrag:{DATA}/mtrag", how)
    assert (passport.rows, passport.tasks) == (300, 150)
    free, ragas = passport.judge("KPrecision(content+bigrams)"), passport.judge("rl_f")
    assert free is not None
    assert ragas is not None
    found = [judge.dimensions["faithfulness"].spearman.value for judge in (free, ragas)]
    assert found == pytest.approx([0.725, 0.637], abs=5e-4)
    [difference] = ragas.dimensions["faithfulness"].versus
    assert difference.spearman.value == pytest.approx(-0.088, abs=1e-3)
    assert (difference.spearman.high or 0) < 0


@pytest.mark.needs_data
def test_the_kappa_of_umbrela() -> None:
    judge = f"{DATA}/rag25/qrels.rag25.test-umbrela2.txt"
    people = f"qrels:{DATA}/rag25/qrels.rag25.test.txt"
    [umbrela] = free_passport(people, PassportOptions(verdicts=(judge,))).judges
    assert umbrela.name == "qrels.rag25.test-umbrela2"
    names = ("relevance", "relevance>=2")
    kappas = [umbrela.dimensions[name].kappa.value for name in names]
    assert kappas == pytest.approx([0.233, 0.431], abs=5e-4)
