"""Text measures against reference formulas, slow second implementations and sacrebleu."""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from typing import Any

import pytest
import sacrebleu
from benchmarks.data_sets import DATA
from hypothesis import given, settings, strategies as st

from ragwright.core import Row, Score
from ragwright.measure import MeasureSetup, parse_measure, parse_measures, parse_rule, score_rows

TEXTS = st.lists(
    st.sampled_from(
        ["the", "a", "An", "cat.", "Cat,", "dogs", "dog", "Rome", "1668", "U.S.", "it's"]
    ),
    max_size=12,
).map(" ".join)


def score(text: str, setup: MeasureSetup | None = None, **fields: object) -> Score:
    row = Row(**{"id": "r", "user_input": "?", **fields})  # type: ignore[arg-type]
    ((found,),) = score_rows([row], [parse_measure(text)], setup)
    return found


# -- SQuAD's own evaluation script, as published -----------------------------------------------


def squad_normal(text: str) -> str:
    text = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def squad_f1(prediction: str, truth: str) -> float:
    ours, theirs = squad_normal(prediction).split(), squad_normal(truth).split()
    if not ours or not theirs:
        return float(ours == theirs)
    same = sum((Counter(ours) & Counter(theirs)).values())
    if not same:
        return 0.0
    precision, recall = same / len(ours), same / len(theirs)
    return 2 * precision * recall / (precision + recall)


@pytest.mark.slow
@given(TEXTS, TEXTS)
def test_answers_as_squad_scores_them(response: str, reference: str) -> None:
    exact = score("ExactMatch(squad)", response=response, reference=reference)
    f1 = score("TokenF1(squad)", response=response, reference=reference)
    if reference:
        assert exact.value == float(squad_normal(response) == squad_normal(reference))
        assert f1.value == pytest.approx(squad_f1(response, reference))
    else:
        assert exact.state == f1.state == "not_applicable"


@pytest.mark.slow
@pytest.mark.needs_data
@pytest.mark.parametrize("name", ["squad2_subset/dev-v2.0.json", "xquad/xquad.de.json"])
def test_squads_rule_on_its_own_answers(name: str) -> None:
    """Every answer against the next one of its paragraph, and against the question."""
    path = DATA / name
    pairs: list[tuple[str, str]] = []
    for article in json.loads(path.read_text("utf-8"))["data"][:12]:
        for paragraph in article["paragraphs"]:
            texts = [a["text"] for qa in paragraph["qas"] for a in qa["answers"]]
            texts += [qa["question"] for qa in paragraph["qas"]]
            pairs += zip(texts, texts[1:] + texts[:1], strict=True)
    assert len(pairs) > 500
    rows = [
        Row(str(at), "?", response=one, reference=other) for at, (one, other) in enumerate(pairs)
    ]
    scores = score_rows(rows, parse_measures("ExactMatch(squad), TokenF1(squad)"))
    for (one, other), (exact, f1) in zip(pairs, scores, strict=True):
        assert exact.value == float(squad_normal(one) == squad_normal(other)), (one, other)
        assert f1.value == pytest.approx(squad_f1(one, other)), (one, other)


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("-5", "5"),
        ("5", "-5"),
        ("\u22125", "5"),
        ("12", "1.2"),
        ("1.2", "12"),
        ("0.5", "5"),
        ("C", "C#"),
        ("C++", "C"),
        ("C++", "C#"),
        ("NET", ".NET"),
        ("50", "50%"),
        ("2024-01-02", "20240102"),
        ("10:30", "1030"),
        ("1/2", "12"),
        ("a == b", "a != b"),
        ("x + 5", "x * 5"),
        ("f_x", "fx"),
        ("A", "B"),
        ("A", "the"),
        ("+", "-"),
        ("", "A"),
        ("", "+"),
        ("an apple", "A"),
        ("1,5", "15"),
    ],
)
def test_signs_that_matter_keep_answers_apart(response: str, reference: str) -> None:
    for measure in ("ExactMatch", "TokenF1"):
        assert (score(measure, response=response, reference=reference).value or 0.0) < 1.0
    found = score("ExactMatch", response=response, reference=reference)
    assert (found.state, found.value, found.no_gold) == ("scored", 0.0, False)


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("-5", "\u22125"),
        ("(-5).", "-5"),
        ("1,000", "1000"),
        ("50 %", "50%"),
        ("c#.", "C#"),
        ("U.S.", "us"),
        ("**Paris**", "Paris"),
        ("*Paris*, of course", "paris of course"),
        ("the cat!", "Cat"),
        ("A", "a"),
        ("A.", "A"),
        ("The", "the"),
        ("+", "+"),
        ("(+)", "(+)"),
        ("a==b", "a == b"),
        ("1990\u20132000", "1990-2000"),
        ("it's", "its"),
        ("well-known", "wellknown"),
        ("5.", "5"),
    ],
)
def test_signs_that_do_not_matter_keep_no_answers_apart(response: str, reference: str) -> None:
    for measure in ("ExactMatch", "TokenF1", "Contains"):
        assert score(measure, response=response, reference=reference).value == 1.0


def test_a_reference_of_nothing_but_an_article_or_a_sign_is_gold() -> None:
    assert score("Contains", response="The answer is A.", reference="A").value == 1.0
    assert score("Contains", response="write a + b", reference="+").value == 1.0
    assert score("Contains", response="write a b", reference="+").value == 0.0
    assert score("TokenF1", response="the B", reference="The").value == pytest.approx(2 / 3)


@pytest.mark.slow
@settings(deadline=None)
@given(TEXTS, TEXTS, st.integers(1, 4))
def test_bleu_is_that_of_sacrebleu(response: str, reference: str, order: int) -> None:
    found = score(f"BLEU({order})", response=response, reference=reference)
    if not reference:
        assert found.state == "not_applicable"
        return
    theirs = sacrebleu.BLEU(max_ngram_order=order, effective_order=True)
    due = theirs.sentence_score(response, [reference]).score / 100
    assert found.value == pytest.approx(min(1.0, due), abs=1e-9)


def test_bleu_worked_by_hand() -> None:
    # 1-grams 3/4 (the mat twice is clipped), 2-grams 2/3, response shorter: penalty exp(1 - 6/4)
    found = score("BLEU(2)", response="the cat sat mat", reference="the cat sat on a rug")
    due = (3 / 4 * 2 / 3) ** 0.5 * 2.718281828 ** (1 - 6 / 4)
    assert found.value == pytest.approx(due, abs=1e-6)


def test_bleu_cuts_chinese_into_characters() -> None:
    chinese = MeasureSetup(language="zh")
    found = score("BLEU(1)", chinese, response="莫里哀写了", reference="莫里哀写")
    assert found.value == pytest.approx(4 / 5)


def test_edit_distance_is_of_characters_over_the_longer_text() -> None:
    found = score("EditDistance", response="kitten", reference="sitting")
    assert found.value == pytest.approx(3 / 7)
    same = score("EditDistance", response="e\u0301te\u0301", reference="\u00e9t\u00e9")
    assert same.value == 0


@given(TEXTS, st.lists(TEXTS, max_size=3))
def test_knowledge_overlap_as_counted_one_by_one(response: str, contexts: list[str]) -> None:
    precision = score("KPrecision", response=response, retrieved_contexts=tuple(contexts))
    f1 = score("KF1", response=response, retrieved_contexts=tuple(contexts))
    said = squad_normal(response).split()
    known = [word for text in contexts for word in squad_normal(text).split()]
    if not known:
        assert precision.state == f1.state == "not_applicable"
        return
    left, common = list(known), 0
    for word in said:
        if word in left:
            left.remove(word)
            common += 1
    if said:
        assert precision.value == pytest.approx(common / len(said))
    else:  # a share of no words
        assert precision.state == "not_applicable"
    assert f1.value == pytest.approx(2 * common / (len(said) + len(known)))


def test_content_words_leave_function_words_out() -> None:
    fields: dict[str, Any] = {
        "response": "It is the running of horses",
        "retrieved_contexts": ("A horse runs.",),
    }
    assert score("KPrecision(content)", **fields).value == 1.0
    assert score("KPrecision", **fields).value == 0.0


GROUNDING = "KPrecision(content+bigrams)"


@pytest.mark.parametrize(
    ("response", "context", "due"),
    [
        ("The old pump leaks.", "The old pump leaks at night.", 1.0),
        ("The pump leaks.", "The pump is old. It leaks.", (2 / 2 + 1 / 2) / 2),
        ("Leaks pump the.", "The pump leaks.", (2 / 2 + 0 / 2) / 2),  # in the wrong order
        ("Once a year.", "Every two years.", (1 / 1 + 0 / 2) / 2),
        ("Me too.", "Me too, she said.", 1.0),  # function words alone
        ("Me too.", "It was me.", (1 / 2 + 0 / 1) / 2),
        ("Yes.", "Yes, it does.", 1.0),  # one word has no bigram
        ("Yes.", "It does.", 0.0),
        ("Pumps", "It is.", 0.0),  # the passage has function words alone
    ],
)
def test_grounding_counts_content_words_and_bigrams(
    response: str, context: str, due: float
) -> None:
    assert score(GROUNDING, response=response, retrieved_contexts=(context,)).value == due


def test_no_bigram_reaches_from_one_passage_into_the_next() -> None:
    found = score(GROUNDING, response="old pump", retrieved_contexts=("It is old", "pump"))
    assert found.value == 0.5


def test_grounding_needs_words_on_both_sides() -> None:
    nothing_said = score(GROUNDING, response="?!", retrieved_contexts=("It is old",))
    nothing_known = score(GROUNDING, response="It is old", retrieved_contexts=("?!",))
    assert nothing_said.state == nothing_known.state == "not_applicable"
    assert nothing_said.reason == "the response contains no words"
    assert nothing_known.reason == "the retrieved contexts contain no words"


def test_the_text_of_grounding_parses_back() -> None:
    assert str(parse_measure(" KPrecision( content + bigrams ) ")) == GROUNDING
    (one, two) = parse_measures(f"{GROUNDING}, TokenF1")
    assert (str(one), str(two)) == (GROUNDING, "TokenF1")
    assert str(parse_rule(f"{GROUNDING}>=baseline-0.02").measure) == GROUNDING


def test_french_answers_are_normalised_as_french() -> None:
    french = MeasureSetup(language="fr")
    fields: dict[str, Any] = {"response": "l'avare", "reference": "L’Avare."}
    assert score("ExactMatch", french, **fields).value == 1.0
    fields = {"response": "une pièce", "reference": "la pièce"}
    assert score("ExactMatch", french, **fields).value == 1.0
    assert score("ExactMatch", **fields).value == 0.0  # as English: two other words
    own = score("ExactMatch", **fields, metadata={"language": "fr"})
    assert own.value == 1.0


def test_of_several_accepted_references_the_best_counts() -> None:
    fields: dict[str, Any] = {
        "response": "Poquelin",
        "reference": "Molière",
        "metadata": {"references": ("Poquelin",)},
    }
    assert score("ExactMatch", **fields).value == 1.0
    assert score("EditDistance", **fields).value == 0.0
    assert score("BLEU(1)", **fields).value == pytest.approx(1.0)


def test_contains_wants_whole_words_in_a_row() -> None:
    assert score("Contains", response="It was in 1668.", reference="1668").value == 1.0
    assert score("Contains", response="It was in 16680.", reference="1668").value == 0.0
    assert score("Contains", response="Red hot pump", reference="red pump").value == 0.0
