"""Passports of judges: figures known by hand or from scipy, on small sets of people's verdicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scipy.stats import kendalltau, spearmanr

from ragwright.core import Row, Score, TestsetError
from ragwright.experiment import (
    Dimension,
    PeopleSet,
    RatedAnswer,
    Verdicts,
    check_people,
    free_passport,
    free_verdicts,
    list_passports,
    passport_from,
    passport_json,
    passport_of,
    passport_of_judge,
    read_passport,
    read_recorded_verdicts,
    record_passport,
)
from ragwright.measure import MeasureScale, parse_measures

LABELS = [1, 4, 2, 3, 4, 1, 2, 4, 3, 1, 4, 2]
VERDICTS = [0.1, 0.9, 0.4, 0.5, 0.8, 0.3, 0.2, 0.7, 0.6, 0.2, 1.0, 0.5]


def people_set(raters: int = 1, systems: tuple[str, ...] = ("a", "b")) -> PeopleSet:
    """Twelve answers of two systems to six tasks, labelled 1 to 4."""
    rated = tuple(
        RatedAnswer(
            Row(f"r{at}", f"question {at // 2}", f"answer {'word ' * at}"),
            {"faithfulness": {f"p{rater}": float(label) for rater in range(raters)}},
            f"task {at // 2}",
            systems[at % 2],
            {"old judge": verdict},
        )
        for at, (label, verdict) in enumerate(zip(LABELS, VERDICTS, strict=True))
    )
    return PeopleSet(
        "small", rated, (Dimension("faithfulness", 1, 4),), scales={"old judge": (0, 1)}
    )


def verdicts_of(values: dict[str, float], scale: MeasureScale | None = None) -> Verdicts:
    scores = {key: Score("judge", "scored", value) for key, value in values.items()}
    return Verdicts("judge", "recorded", scores, scale, identity={"verdicts": "judge"})


def test_correlations_are_those_of_scipy() -> None:
    people = people_set()
    passport = passport_from(people, read_recorded_verdicts(people))
    [judge] = passport.judges
    figures = judge.dimensions["faithfulness"]
    assert figures.spearman.value == pytest.approx(spearmanr(LABELS, VERDICTS)[0])
    assert figures.kendall.value == pytest.approx(kendalltau(LABELS, VERDICTS)[0])
    assert (figures.rows, figures.tasks) == (12, 6)
    low, high = figures.spearman.low, figures.spearman.high
    assert low is not None
    assert high is not None
    assert low < (figures.spearman.value or 0) <= high


def test_bias_is_in_points_of_people_and_by_group() -> None:
    people = people_set()
    [judge] = passport_from(people, read_recorded_verdicts(people)).judges
    figures = judge.dimensions["faithfulness"]
    mapped = [1 + 3 * verdict for verdict in VERDICTS]
    off = [ours - theirs for ours, theirs in zip(mapped, LABELS, strict=True)]
    assert figures.bias.value == pytest.approx(sum(off) / 12)
    assert "0-1 mapped to 1-4" in figures.mapped
    by_system = {group.name: group.bias.value for group in figures.groups["system"]}
    assert by_system == {
        "a": pytest.approx(sum(off[0::2]) / 6),
        "b": pytest.approx(sum(off[1::2]) / 6),
    }


def test_kappa_only_on_peoples_points_and_auc_only_of_binary_labels() -> None:
    rated = tuple(
        RatedAnswer(Row(f"r{at}", "q"), {"relevance": {"p": float(at < 5)}}, f"t{at}")
        for at in range(10)
    )
    people = PeopleSet("binary", rated, (Dimension("relevance", 0, 1),))
    # 4 of 5 relevant and 4 of 5 others are right: observed .8, by chance .5
    same = {f"r{at}": float(at < 4 or at == 9) for at in range(10)}
    [judge] = passport_from(people, [verdicts_of(same)]).judges
    figures = judge.dimensions["relevance"]
    assert figures.kappa.value == pytest.approx(0.6)
    assert figures.auc.value == pytest.approx(0.8)
    spread = {f"r{at}": 1 - at / 20 for at in range(10)}
    [judge] = passport_from(people, [verdicts_of(spread, MeasureScale(0, 1))]).judges
    assert judge.dimensions["relevance"].auc.value == 1
    assert (
        passport_from(people_set(), read_recorded_verdicts(people_set()))
        .judges[0]
        .dimensions["faithfulness"]
        .auc.value
        is None
    )


def test_lower_is_better_is_turned() -> None:
    people = people_set()
    turned = {f"r{at}": 1 - verdict for at, verdict in enumerate(VERDICTS)}
    [judge] = passport_from(people, [verdicts_of(turned, MeasureScale(0, 1, False))]).judges
    assert judge.dimensions["faithfulness"].spearman.value == pytest.approx(
        spearmanr(LABELS, VERDICTS)[0]
    )


def test_people_have_a_ceiling_only_with_two_labels() -> None:
    one = passport_from(people_set(1), read_recorded_verdicts(people_set()))
    assert one.people[0].twice == 0
    assert one.people[0].spearman.value is None
    two = passport_from(people_set(2), read_recorded_verdicts(people_set()))
    assert two.people[0].spearman.value == pytest.approx(1)
    assert (two.people[0].labels, two.people[0].raters) == (24, 2)


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
    people = people_set()
    scores = {f"r{at}": Score("F", "scored", float(LABELS[at])) for at in range(9)}
    scores |= {f"r{at}": Score("F", "judge_invalid", reason="no JSON") for at in range(9, 12)}
    judge = Verdicts("F by m", "model", scores, MeasureScale(1, 4), "Faithfulness", "m")
    [seen] = passport_from(people, [judge]).judges
    assert seen.unusable.value == pytest.approx(0.25)
    assert seen.states == {"judge_invalid": 3, "scored": 9}
    assert seen.dimensions["faithfulness"].rows == 9


def test_advice_prefers_what_is_free_unless_the_judge_is_better() -> None:
    words = [f"w{at}" for at in range(40)]
    rated = tuple(
        RatedAnswer(
            Row(
                f"r{at}",
                "q",
                " ".join(words[: at + 1]),
                retrieved_contexts=(" ".join(words[:20]),),
            ),
            {"faithfulness": {"p": float(at < 20)}},
            f"t{at}",
        )
        for at in range(40)
    )
    people = PeopleSet("words", rated, (Dimension("faithfulness", 0, 1),))
    free = free_verdicts(people, parse_measures("KPrecision"))
    noise = verdicts_of({f"r{at}": float(at % 2) for at in range(40)})
    passport = passport_from(people, [noise, *free])
    bad, good = passport.judge("judge"), passport.judge("KPrecision")
    assert bad is not None
    assert good is not None
    assert not bad.dimensions["faithfulness"].trusted
    assert bad.dimensions["faithfulness"].advice.startswith("Do not use judge for faithfulness")
    assert good.dimensions["faithfulness"].trusted
    [difference] = bad.dimensions["faithfulness"].versus
    assert difference.name == "KPrecision"
    assert difference.spearman.high is not None
    assert difference.spearman.high < 0
    # above chance, and still below what is free: both are named
    weak = verdicts_of({f"r{at}": float((at < 20) != (at % 5 == 0)) for at in range(40)})
    judged = passport_from(people, [weak, *free]).judge("judge")
    assert judged is not None
    assert not judged.dimensions["faithfulness"].trusted
    advice = judged.dimensions["faithfulness"].advice
    assert advice.startswith("Use KPrecision instead of judge for faithfulness: it is free and")
    assert "difference of Spearman +0." in advice


def test_the_document_reads_back_and_a_gate_finds_it_by_the_judge(tmp_path: Path) -> None:
    people = people_set(2)
    passport = passport_from(people, read_recorded_verdicts(people))
    body = json.loads(json.dumps(passport_json(passport)))
    assert passport_json(passport_of(body)) == body
    assert body["judges"]["old judge"]["faithfulness"]["spearman"].keys() == {
        "value",
        "low",
        "high",
    }
    path = record_passport(tmp_path, passport)
    assert record_passport(tmp_path, passport) == path  # the same judges and set: one file
    [(known, _)] = list_passports(tmp_path)
    assert known == path
    identity = passport.judges[0].identity
    found = passport_of_judge(tmp_path, identity)
    assert found is not None
    assert found[2].name == "old judge"
    assert passport_of_judge(tmp_path, {**identity, "hash": "another"}) is None
    path.write_text("{}")
    with pytest.raises(TestsetError, match="not a passport"):
        read_passport(path)


@pytest.mark.parametrize(
    ("label", "message"), [(5.0, "off the scale"), (float("nan"), "off the scale")]
)
def test_labels_off_the_scale_are_refused(label: float, message: str) -> None:
    rated = (RatedAnswer(Row("r", "q"), {"d": {"p": label}}, "t"),)
    with pytest.raises(TestsetError, match=message):
        check_people(PeopleSet("s", rated, (Dimension("d", 1, 4),)))


def test_an_empty_set_and_a_double_id_are_refused() -> None:
    with pytest.raises(TestsetError, match="no label"):
        check_people(PeopleSet("s", (), (Dimension("d", 1, 4),)))
    row = RatedAnswer(Row("r", "q"), {"d": {"p": 1.0}}, "t")
    with pytest.raises(TestsetError, match="occurs twice"):
        check_people(PeopleSet("s", (row, row), (Dimension("d", 1, 4),)))


@pytest.mark.needs_data
@pytest.mark.slow
def test_the_figures_of_mtrag() -> None:
    from benchmarks.data_sets import DATA

    from ragwright.experiment import PassportOptions

    how = PassportOptions(measures="KPrecision(content+bigrams)")
    passport = free_passport(f"mtrag:{DATA}/mtrag", how)
    assert (passport.rows, passport.tasks) == (300, 150)
    free = passport.judge("KPrecision(content+bigrams)")
    ragas = passport.judge("rl_f")
    assert free is not None
    assert ragas is not None
    assert free.dimensions["faithfulness"].spearman.value == pytest.approx(0.725, abs=5e-4)
    assert ragas.dimensions["faithfulness"].spearman.value == pytest.approx(0.637, abs=5e-4)
    [difference] = ragas.dimensions["faithfulness"].versus
    assert difference.spearman.value == pytest.approx(-0.088, abs=1e-3)
    assert difference.spearman.high is not None
    assert difference.spearman.high < 0


@pytest.mark.needs_data
def test_the_kappa_of_umbrela() -> None:
    from benchmarks.data_sets import DATA

    from ragwright.experiment import PassportOptions

    judge = f"{DATA}/rag25/qrels.rag25.test-umbrela2.txt"
    people = f"qrels:{DATA}/rag25/qrels.rag25.test.txt"
    passport = free_passport(people, PassportOptions(verdicts=(judge,)))
    [umbrela] = passport.judges
    assert umbrela.name == "qrels.rag25.test-umbrela2"
    assert umbrela.dimensions["relevance"].kappa.value == pytest.approx(0.233, abs=5e-4)
    assert umbrela.dimensions["relevance>=2"].kappa.value == pytest.approx(0.431, abs=5e-4)
