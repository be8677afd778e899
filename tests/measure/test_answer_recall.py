"""AnswerRecall: gold answers within passages, against DPR's rule and a slow second reading."""

from __future__ import annotations

import json
import random
import string
import unicodedata

import pytest
from benchmarks.data_sets import DATA

from ragwright.core import Row
from ragwright.measure import (
    content_words,
    default_measures,
    parse_measure,
    parse_measures,
    score_rows,
)


def value(
    name: str, passages: tuple[str, ...], reference: str, **metadata: str | tuple[str, ...]
) -> float:
    row = Row("a", "?", reference=reference, retrieved_contexts=passages, metadata=metadata)
    [[score]] = score_rows([row], parse_measures(name))
    assert score.value is not None, score.reason
    return score.value


def dpr_has_answer(answer: str, passage: str) -> bool:
    """``has_answer`` of DPR's ``qa_validation.py``, with its SimpleTokenizer."""
    import regex

    pattern = regex.compile(
        r"([\p{L}\p{N}\p{M}]+)|([^\p{Z}\p{C}])", regex.IGNORECASE | regex.UNICODE | regex.MULTILINE
    )

    def tokens(text: str) -> list[str]:
        normal = unicodedata.normalize("NFD", text)
        return [match.group().lower() for match in pattern.finditer(normal)]

    wanted, text = tokens(answer), tokens(passage)
    return any(wanted == text[at : at + len(wanted)] for at in range(len(text) - len(wanted) + 1))


def slow(reference: str, passages: tuple[str, ...], k: int, language: str) -> float:
    """The definition read once more, for plain ASCII words without articles."""
    wanted = reference.lower().split()
    if len(wanted) <= 5:
        line = f" {' '.join(wanted)} "
        return float(any(line in f" {text.lower()} " for text in passages[:k]))
    due = set(content_words(reference, language))
    shares = [len([w for w in due if w in content_words(p, language)]) for p in passages[:k]]
    return max(shares, default=0) / len(due)


def test_words_of_a_short_reference_must_be_in_one_passage_in_sequence() -> None:
    passages = ("The pump was oiled in May 1998.", "It cost $1,200.50, the U.S. office said.")
    assert value("AnswerRecall@5", passages, "May 1998") == 1
    assert value("AnswerRecall@5", passages, "1998 May") == 0
    assert value("AnswerRecall@5", passages, "the 1200.50") == 1  # signs of numbers as ExactMatch
    assert value("AnswerRecall@5", passages, "200.50") == 0
    assert value("AnswerRecall@5", passages, "US office") == 1
    assert value("AnswerRecall@1", passages, "US office") == 0
    assert value("AnswerRecall@5", ("oiled in", "May 1998"), "in May") == 0
    assert value("AnswerRecall@5", passages, "June", references=("May",)) == 1


def test_of_a_free_text_reference_the_share_in_one_passage_counts() -> None:
    reference = "The pump must be oiled every spring before 1200 hours have passed"
    whole = ("Before 1200 hours have passed, every pump must be oiled, in spring.",)
    assert value("AnswerRecall@5", whole, reference) == 1
    part = value("AnswerRecall@5", ("The pump is red.", "Spring is green."), reference)
    assert 0 < part < 0.5
    assert value("AnswerRecall(dpr)@5", whole, reference) == 0


def test_a_retriever_that_found_nothing_has_0_and_a_row_without_a_reference_no_value() -> None:
    nothing = Row("a", "?", reference="May", metadata={"retrieved": True})
    bare = Row("b", "?", retrieved_contexts=("May",))
    [[found], [lacking]] = score_rows([nothing, bare], parse_measures("AnswerRecall@5"))
    assert found.value == 0
    assert (lacking.state, lacking.no_gold) == ("not_applicable", True)


def test_it_parses_back_and_equals_a_slow_second_reading_on_random_texts() -> None:
    assert str(parse_measure("AnswerRecall(words)@5")) == "AnswerRecall@5"
    assert str(parse_measure("AnswerRecall(dpr)@5")) == "AnswerRecall(dpr)@5"
    draw = random.Random(0)
    words = ["oil", "pump", "spring", "valve", "rotor", "42", "1998", "cost", "red"]
    for _ in range(400):
        passages = tuple(
            " ".join(draw.choices(words, k=draw.randint(1, 9))) for _ in range(draw.randint(1, 6))
        )
        reference = " ".join(draw.choices(words, k=draw.randint(1, 8)))
        k = draw.randint(1, 6)
        ours = value(f"AnswerRecall@{k}", passages, reference)
        assert ours == pytest.approx(slow(reference, passages, k, "en")), (reference, passages)


def test_the_tokens_of_dpr_give_the_values_of_its_rule_on_random_texts() -> None:
    draw = random.Random(1)
    letters = "aB1é ü.-_'$½ñ\u0301\u200b\u00ad\u4e2d\n" + string.punctuation
    for _ in range(600):
        text = "".join(draw.choices(letters, k=draw.randint(1, 30)))
        start = draw.randrange(len(text))
        answer = text[start : start + draw.randint(1, 5)] if draw.random() < 0.7 else "B1"
        if any(sign.isalnum() for sign in answer):
            due = float(dpr_has_answer(answer, text))
            assert value("AnswerRecall(dpr)@1", (text,), answer) == due, (answer, text)


@pytest.mark.needs_data
@pytest.mark.parametrize("language", ["en", "de", "es"])
def test_real_short_answers_are_found_in_their_paragraphs(language: str) -> None:
    articles = json.loads((DATA / "xquad" / f"xquad.{language}.json").read_text("utf-8"))["data"]
    paragraphs = [p for article in articles for p in article["paragraphs"]][:120]
    ours, theirs, other = [], [], []
    for at, paragraph in enumerate(paragraphs):
        elsewhere = paragraphs[at - 1]["context"]
        for qa in paragraph["qas"]:
            answer = qa["answers"][0]["text"]
            own = (elsewhere, paragraph["context"])
            ours.append(value("AnswerRecall@2", own, answer, language=language))
            dpr = value("AnswerRecall(dpr)@2", own, answer)
            assert dpr == float(any(dpr_has_answer(answer, text) for text in own))
            theirs.append(dpr)
            other.append(value("AnswerRecall@1", own, answer, language=language))
    assert sum(ours) / len(ours) > 0.97
    assert sum(theirs) / len(theirs) > 0.97
    assert sum(other) / len(other) < 0.2


def test_it_is_taken_for_a_retriever_whose_only_gold_is_an_answer() -> None:
    found = Row("a", "?", reference="May 1998", retrieved_contexts=("In May 1998.",))
    chosen = default_measures([found])
    assert [str(one) for one in chosen.measures] == ["AnswerRecall@5"]
    answered = Row("a", "?", response="May", reference="May", retrieved_contexts=("In May.",))
    names = [str(one) for one in default_measures([answered]).measures]
    assert "AnswerRecall@5" not in names
    assert "AnswerRecall" not in default_measures([answered]).note
    ids = {"retrieved_context_ids": ("d",), "reference_ids": {"d": 1}}
    gold = Row("a", "?", reference="May", retrieved_contexts=("In May.",), **ids)  # type: ignore[arg-type]
    assert "AnswerRecall@5" not in [str(one) for one in default_measures([gold]).measures]
