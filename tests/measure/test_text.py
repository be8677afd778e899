"""Text measures against reference formulas, slow second implementations, sacrebleu and DPR."""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from typing import Any

import pytest
import sacrebleu
from benchmarks.data_sets import DATA
from hypothesis import given, strategies as st

from ragwright.core import Row, Score
from ragwright.measure import MeasureSetup, default_measures, parse_measure, score_rows

TEXTS = st.lists(
    st.sampled_from(
        ["the", "a", "An", "cat.", "Cat,", "dogs", "dog", "Rome", "1668", "U.S.", "it's"]
    ),
    max_size=12,
).map(" ".join)


def score(text: str, setup: MeasureSetup | None = None, /, **fields: Any) -> Score:
    row = Row("r", "?", **fields)
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
    exact, f1 = (
        score(text, response=response, reference=reference)
        for text in ("ExactMatch(squad)", "TokenF1(squad)")
    )
    if reference:
        assert exact.value == float(squad_normal(response) == squad_normal(reference))
        assert f1.value == pytest.approx(squad_f1(response, reference))
    else:
        assert exact.state == f1.state == "not_applicable"


# -- Signs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("-5", "5"), ("5", "-5"), ("\u22125", "5"), ("12", "1.2"), ("1.2", "12"), ("0.5", "5"),
        ("C", "C#"), ("C++", "C"), ("C++", "C#"), ("NET", ".NET"), ("50", "50%"), ("1/2", "12"),
        ("2024-01-02", "20240102"), ("10:30", "1030"), ("a == b", "a != b"), ("x + 5", "x * 5"),
        ("f_x", "fx"), ("A", "B"), ("A", "the"), ("+", "-"), ("", "A"), ("", "+"),
        ("an apple", "A"), ("1,5", "15"),
    ],
)  # fmt: skip
def test_signs_that_matter_keep_answers_apart(response: str, reference: str) -> None:
    found = score("ExactMatch", response=response, reference=reference)
    assert (found.state, found.value, found.no_gold) == ("scored", 0.0, False)
    assert (score("TokenF1", response=response, reference=reference).value or 0.0) < 1.0


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("-5", "\u22125"), ("(-5).", "-5"), ("1,000", "1000"), ("50 %", "50%"), ("c#.", "C#"),
        ("U.S.", "us"), ("**Paris**", "Paris"), ("*Paris*, of course", "paris of course"),
        ("the cat!", "Cat"), ("A", "a"), ("A.", "A"), ("The", "the"), ("+", "+"), ("(+)", "(+)"),
        ("a==b", "a == b"), ("1990\u20132000", "1990-2000"), ("it's", "its"), ("5.", "5"),
        ("well-known", "wellknown"),
    ],
)  # fmt: skip
def test_signs_that_do_not_matter_keep_no_answers_apart(response: str, reference: str) -> None:
    for measure in ("ExactMatch", "TokenF1", "Contains"):
        assert score(measure, response=response, reference=reference).value == 1.0


FRENCH, CHINESE = MeasureSetup(language="fr"), MeasureSetup(language="zh")
# 1-grams 3/4 (the mat twice is clipped), 2-grams 2/3, response shorter: penalty exp(1 - 6/4)
BLEU_2 = (3 / 4 * 2 / 3) ** 0.5 * 2.718281828 ** (1 - 6 / 4)


@pytest.mark.parametrize(
    ("text", "response", "reference", "setup", "due"),
    [
        # a reference of nothing but an article or a sign is gold
        ("Contains", "The answer is A.", "A", None, 1.0),
        ("Contains", "write a + b", "+", None, 1.0),
        ("Contains", "write a b", "+", None, 0.0),
        ("TokenF1", "the B", "The", None, 2 / 3),
        # whole words in a row
        ("Contains", "It was in 1668.", "1668", None, 1.0),
        ("Contains", "It was in 16680.", "1668", None, 0.0),
        ("Contains", "Red hot pump", "red pump", None, 0.0),
        ("BLEU(2)", "the cat sat mat", "the cat sat on a rug", None, BLEU_2),
        ("BLEU(1)", "莫里哀写了", "莫里哀写", CHINESE, 4 / 5),  # characters
        ("EditDistance", "kitten", "sitting", None, 3 / 7),  # over the longer text
        ("EditDistance", "e\u0301te\u0301", "\u00e9t\u00e9", None, 0.0),
        ("ExactMatch", "l'avare", "L’Avare.", FRENCH, 1.0),
        ("ExactMatch", "une pièce", "la pièce", FRENCH, 1.0),
        ("ExactMatch", "une pièce", "la pièce", None, 0.0),  # as English: two other words
    ],
)
def test_by_hand(
    text: str, response: str, reference: str, setup: MeasureSetup | None, due: float
) -> None:
    found = score(text, setup, response=response, reference=reference)
    assert found.value == pytest.approx(due, abs=1e-6)


def test_a_row_has_a_language_and_of_several_accepted_references_the_best_counts() -> None:
    own = {"response": "une pièce", "reference": "la pièce", "metadata": {"language": "fr"}}
    assert score("ExactMatch", **own).value == 1.0
    more = {"references": ("Poquelin",)}
    for text, due in (("ExactMatch", 1.0), ("EditDistance", 0.0), ("BLEU(1)", 1.0)):
        found = score(text, response="Poquelin", reference="Molière", metadata=more)
        assert found.value == pytest.approx(due)


@pytest.mark.slow
@given(TEXTS, TEXTS, st.integers(1, 4))
def test_bleu_is_that_of_sacrebleu(response: str, reference: str, order: int) -> None:
    found = score(f"BLEU({order})", response=response, reference=reference)
    if not reference:
        assert found.state == "not_applicable"
        return
    theirs = sacrebleu.BLEU(max_ngram_order=order, effective_order=True)
    due = theirs.sentence_score(response, [reference]).score / 100
    assert found.value == pytest.approx(min(1.0, due), abs=1e-9)


# -- Words of the passages -------------------------------------------------------------------------


@given(TEXTS, st.lists(TEXTS, max_size=3))
def test_knowledge_overlap_as_counted_one_by_one(response: str, contexts: list[str]) -> None:
    precision = score("KPrecision", response=response, retrieved_contexts=tuple(contexts))
    f1 = score("KF1", response=response, retrieved_contexts=tuple(contexts))
    said = squad_normal(response).split()
    known = [word for text in contexts for word in squad_normal(text).split()]
    if not known:
        assert precision.state == f1.state == "not_applicable"
        return
    common = (Counter(said) & Counter(known)).total()
    if said:
        assert precision.value == pytest.approx(common / len(said))
    else:  # a share of no words
        assert precision.state == "not_applicable"
    assert f1.value == pytest.approx(2 * common / (len(said) + len(known)))


GROUNDING = "KPrecision(content+bigrams)"


@pytest.mark.parametrize(
    ("text", "response", "contexts", "due"),
    [
        ("KPrecision(content)", "It is the running of horses", "A horse runs.", 1.0),
        ("KPrecision", "It is the running of horses", "A horse runs.", 0.0),
        (GROUNDING, "The old pump leaks.", "The old pump leaks at night.", 1.0),
        (GROUNDING, "The pump leaks.", "The pump is old. It leaks.", (2 / 2 + 1 / 2) / 2),
        (GROUNDING, "Leaks pump the.", "The pump leaks.", (2 / 2 + 0 / 2) / 2),  # the wrong order
        (GROUNDING, "Once a year.", "Every two years.", (1 / 1 + 0 / 2) / 2),
        (GROUNDING, "Me too.", "Me too, she said.", 1.0),  # function words alone
        (GROUNDING, "Me too.", "It was me.", (1 / 2 + 0 / 1) / 2),
        (GROUNDING, "Yes.", "Yes, it does.", 1.0),  # one word has no bigram
        (GROUNDING, "Yes.", "It does.", 0.0),
        (GROUNDING, "Pumps", "It is.", 0.0),  # the passage has function words alone
        (GROUNDING, "old pump", "It is old|pump", 0.5),  # no bigram reaches into the next passage
        (GROUNDING, "?!", "It is old", "the response contains no words"),
        (GROUNDING, "It is old", "?!", "the retrieved contexts contain no words"),
    ],
)
def test_words_of_passages_by_hand(
    text: str, response: str, contexts: str, due: float | str
) -> None:
    found = score(text, response=response, retrieved_contexts=tuple(contexts.split("|")))
    if isinstance(due, str):
        assert (found.state, found.reason) == ("not_applicable", due)
    else:
        assert found.value == due


# -- AnswerRecall: gold answers within passages ----------------------------------------------------


def recall(
    name: str, passages: tuple[str, ...], reference: str, **metadata: str | tuple[str, ...]
) -> float:
    fields = {"reference": reference, "retrieved_contexts": passages, "metadata": metadata}
    found = score(f"AnswerRecall{name}", **fields)
    assert found.value is not None, found.reason
    return found.value


PUMP = ("The pump was oiled in May 1998.", "It cost $1,200.50, the U.S. office said.")
LONG = "The pump must be oiled every spring before 1200 hours have passed"
WHOLE = ("Before 1200 hours have passed, every pump must be oiled, in spring.",)


@pytest.mark.parametrize(
    ("name", "passages", "reference", "due"),
    [
        ("@5", PUMP, "May 1998", 1),
        ("@5", PUMP, "1998 May", 0),
        ("@5", PUMP, "the 1200.50", 1),  # signs of numbers as ExactMatch
        ("@5", PUMP, "200.50", 0),
        ("@5", PUMP, "US office", 1),
        ("@1", PUMP, "US office", 0),
        ("@5", ("oiled in", "May 1998"), "in May", 0),
        ("@5", WHOLE, LONG, 1),  # of free text the share in one passage
    ],
)
def test_words_of_a_short_reference_must_be_in_one_passage_in_sequence(
    name: str, passages: tuple[str, ...], reference: str, due: float
) -> None:
    assert recall(name, passages, reference) == due


def test_answer_recall_of_parts_of_other_references_and_of_nothing() -> None:
    assert recall("@5", PUMP, "June", references=("May",)) == 1
    assert 0 < recall("@5", ("The pump is red.", "Spring is green."), LONG) < 0.5
    assert score("AnswerRecall@5", reference="May", metadata={"retrieved": True}).value == 0
    lacking = score("AnswerRecall@5", retrieved_contexts=("May",))
    assert (lacking.state, lacking.no_gold) == ("not_applicable", True)


@pytest.mark.needs_data
@pytest.mark.parametrize("language", ["en", "de", "es"])
def test_real_short_answers_are_found_in_their_paragraphs(language: str) -> None:
    articles = json.loads((DATA / "xquad" / f"xquad.{language}.json").read_text("utf-8"))["data"]
    paragraphs = [p for article in articles for p in article["paragraphs"]][:120]
    found: list[tuple[float, float]] = []
    for at, paragraph in enumerate(paragraphs):
        own = (paragraphs[at - 1]["context"], paragraph["context"])
        for answer in (qa["answers"][0]["text"] for qa in paragraph["qas"]):
            ours, other = (recall(name, own, answer, language=language) for name in ("@2", "@1"))
            found.append((ours, other))
    ours, other = (sum(values) / len(found) for values in zip(*found, strict=True))
    assert ours > 0.97
    assert other < 0.2


def test_answer_recall_is_taken_for_a_retriever_whose_only_gold_is_an_answer() -> None:
    found = Row("a", "?", reference="May 1998", retrieved_contexts=("In May 1998.",))
    assert [str(one) for one in default_measures([found]).measures] == ["AnswerRecall@5"]
    answered = Row("a", "?", response="May", reference="May", retrieved_contexts=("In May.",))
    assert "AnswerRecall" not in default_measures([answered]).note
    ids = {"retrieved_context_ids": ("d",), "reference_ids": {"d": 1}}
    gold = Row("a", "?", reference="May", retrieved_contexts=("In May.",), **ids)  # type: ignore[arg-type]
    for row in (answered, gold):
        assert "AnswerRecall@5" not in [str(one) for one in default_measures([row]).measures]
