"""How the weights of a query follow from its words and from what the index holds of them."""

from __future__ import annotations

import gc
import weakref

import pytest
from hypothesis import given, strategies as st

from ragwright.core import Span, Term
from ragwright.models import Analyzer, Tokenizer
from ragwright.retrieve import balance, measure_score_share, unknown_share

SHARE = st.floats(0, 1)


class Pairs(Tokenizer):
    """Knows words of up to four letters; cuts longer runs to pairs of characters."""

    def spans(self, text: str) -> list[Span]:
        if len(text) <= 4:
            return [Span(0, len(text))] if text else []
        return [Span(at, min(at + 2, len(text))) for at in range(0, len(text), 2)]


def terms(*rows: tuple[str, float]) -> tuple[Term, ...]:
    return tuple(Term(token, 1, idf, idf) for token, idf in rows)


@given(SHARE, SHARE, SHARE)
def test_the_keyword_share_lies_between_its_base_and_one(
    base: float, unknown: float, held: float
) -> None:
    found = balance(base, unknown, held).keyword
    assert base <= found <= 1.0 + 1e-12
    assert balance(base, 0.0, held).keyword == base
    assert balance(base, unknown, 0.0).keyword == base


@given(SHARE, SHARE, SHARE, SHARE)
def test_more_that_only_the_index_knows_never_lowers_it(
    base: float, unknown: float, held: float, other: float
) -> None:
    more = balance(base, max(unknown, other), held).keyword
    assert more >= balance(base, min(unknown, other), held).keyword


def test_a_code_is_unknown_whatever_the_tokenizer_makes_of_it() -> None:
    asked = terms(("fix", 1.0), ("e12", 3.0), ("12", 3.0))
    assert unknown_share("fix E12", asked, Analyzer(), Pairs()) == 0.75
    assert unknown_share("fix E12", asked, Analyzer(), None) == 0.75
    assert unknown_share("fix E12", asked, None, None) == pytest.approx(3 / 7)


def test_words_count_by_the_pieces_that_go_on_within_them_and_by_rarity() -> None:
    asked = terms(("pump", 1.0), ("manifold", 3.0))
    # pump is one piece; ma ni fo ld: three of four pieces go on within the word
    assert unknown_share("pump manifold", asked, Analyzer(), Pairs()) == pytest.approx(
        (3.0 * 3 / 4) / 4.0
    )


@pytest.mark.parametrize("text", ["", "of the", "☃"])
def test_nothing_to_look_for_is_nothing_unknown(text: str) -> None:
    assert unknown_share(text, (), Analyzer(), Pairs()) == 0.0


def test_an_endless_word_costs_no_more_than_its_beginning() -> None:
    word = "x" * 100_000
    asked = terms(*((token, 2.0) for token in Analyzer().tokens(word)))
    assert 0.9 < unknown_share(word, asked, Analyzer(), Pairs()) < 1.0


def test_what_the_best_chunk_holds_is_a_share_of_the_greatest_score() -> None:
    asked = terms(("pump", 1.0), ("manifold", 3.0))
    assert measure_score_share(2.0, asked) == 0.5
    assert measure_score_share(9.0, asked) == 1.0
    assert measure_score_share(2.0, ()) == 0.0


def test_the_reason_is_for_people() -> None:
    reason = balance(0.2, 0.5, 0.5).reason
    assert "keyword 0.40, dense 0.60" in reason
    assert "50%" in reason


@pytest.mark.slow
def test_a_tokenizer_that_is_used_no_more_is_let_go() -> None:
    tokenizer = Pairs()
    gone = weakref.ref(tokenizer)
    asked = terms(("manifold", 1.0))
    assert unknown_share("manifold", asked, Analyzer(), tokenizer) == 0.75
    assert unknown_share("manifold", asked, Analyzer(), tokenizer) == 0.75
    del tokenizer
    gc.collect()
    assert gone() is None
