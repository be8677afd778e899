"""What every embedder must do, as tests that a plug-in inherits."""

from __future__ import annotations

import numpy as np

from ..models import Embedder, embed_texts

TEXTS = (
    "The cat sat on the mat.",
    "A kitten was sitting on the rug.",
    "Quarterly revenue rose by four per cent.",
    "Les résultats trimestriels ont progressé de quatre pour cent.",
    "error_code APP_w304",
    "x",
    "  spaces   and\nlines ",
    "",
)


class EmbedderSuite:
    """Inherit it and say how to make the embedder.

    For example::

        class TestMine(EmbedderSuite):
            def make(self) -> Embedder:
                return MyEmbedder()

    Attributes:
        tolerance: Largest difference between the vectors of one text alone and among others;
            0 asks for equal bytes.
        semantic: The model is expected to put paraphrases nearer than other subjects.
    """

    tolerance: float = 0.0
    semantic: bool = True

    def make(self) -> Embedder:
        """A fresh embedder, or a shared one."""
        raise NotImplementedError("return the embedder under test")

    def test_vectors_have_the_stated_shape_and_are_finite(self) -> None:
        """Vectors are float32: one row for each text, ``dimensions`` columns."""
        embedder = self.make()
        vectors = embedder.embed_batch(TEXTS)
        assert vectors.dtype == np.float32
        assert vectors.shape == (len(TEXTS), embedder.dimensions)
        assert np.isfinite(vectors).all()

    def test_no_texts_are_no_vectors(self) -> None:
        """An empty batch keeps its width."""
        embedder = self.make()
        assert embedder.embed_batch([]).shape == (0, embedder.dimensions)

    def test_a_vector_does_not_depend_on_its_neighbours(self) -> None:
        """A vector is the same alone, in a batch and in another order, within ``tolerance``."""
        embedder = self.make()
        together = embedder.embed_batch(TEXTS)
        backwards = embedder.embed_batch(TEXTS[::-1])[::-1]
        alone = np.concatenate([embedder.embed_batch([text]) for text in TEXTS])
        for other in (backwards, alone):
            if self.tolerance == 0:
                assert together.tobytes() == other.tobytes()
            else:
                assert float(np.abs(together - other).max()) <= self.tolerance

    def test_equal_texts_have_equal_vectors(self) -> None:
        """Equal texts in one batch have equal vectors."""
        embedder = self.make()
        first, second = embedder.embed_batch([TEXTS[0], TEXTS[0]])
        assert float(np.abs(first - second).max()) <= self.tolerance

    def test_the_identity_is_stable(self) -> None:
        """Two openings of one model have one name."""
        assert self.make().identity
        assert self.make().identity == self.make().identity

    def test_paraphrases_are_nearer_than_other_subjects(self) -> None:
        """A text is nearer to its paraphrase than to another text."""
        if not self.semantic:
            return
        cat, kitten, revenue = self.make().embed_batch(TEXTS[:3])
        assert float(cat @ kitten) > float(cat @ revenue)

    def test_the_tokenizer_counts_and_its_spans_are_in_the_text(self) -> None:
        """Token spans are in order, inside the text, and as many as are counted."""
        tokenizer = self.make().tokenizer()
        if tokenizer is None:
            return
        for text in TEXTS:
            spans = tokenizer.spans(text)
            assert tokenizer.count(text) == len(spans)
            assert all(0 <= s.start <= s.end <= len(text) for s in spans)
            assert [s.start for s in spans] == sorted(s.start for s in spans)

    def test_a_text_beyond_the_window_is_pooled_not_cut(self) -> None:
        """The end of a long text changes its vector."""
        embedder = self.make()
        if embedder.window is None or embedder.tokenizer() is None:
            return
        words = " ".join(["alpha beta gamma"] * embedder.window)
        plain, marked = embed_texts(embedder, [[words], [words + " and a submarine"]])
        assert isinstance(plain, np.ndarray)
        assert isinstance(marked, np.ndarray)
        assert not np.array_equal(plain, marked)
