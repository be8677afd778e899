"""Embedding models of a project's own: one cuts codes into pieces, one cuts at four characters."""

from __future__ import annotations

PIECES = '''
import re, zlib
import numpy as np
from ragwright.core import Span
from ragwright.models import Embedder, Tokenizer

CUT = re.compile(r"(?<![a-z0-9])[a-z]+(?![a-z0-9_])|[a-z]{1,2}|[0-9]{1,2}|[^a-z0-9\\s]", re.I)
class Pieces(Tokenizer):
    name = "pieces"
    def spans(self, text):
        return [Span(m.start(), m.end()) for m in CUT.finditer(text)]
    def pieces(self, text):
        return [
            ("##" if s.start and (text[s.start - 1].isalnum() or text[s.start - 1] == "_") else "")
            + text[s.start : s.end].lower()
            for s in self.spans(text)
        ]
class Model(Embedder):
    """Adds up directions of known words; pieces of a code are the same for all codes."""
    identity, dimensions = "pieces", 64
    def tokenizer(self):
        return Pieces()
    def embed_batch(self, texts):
        made = np.full((len(texts), 64), 0.01, np.float32)
        for row, text in zip(made, texts):
            for piece in Pieces().pieces(text):
                if piece.isalpha():
                    row[zlib.crc32(piece.encode()) % 64] += 1
        return made / np.linalg.norm(made, axis=1, keepdims=True)
'''
FOURS = """\
import numpy as np
from ragwright.core import Span
from ragwright.models import Embedder, Tokenizer
class Fours(Tokenizer):
    name = "fours"
    def spans(self, text):
        return [Span(at, min(at + 4, len(text))) for at in range(0, len(text), 4)]
class Toy(Embedder):
    identity, dimensions, window = "letters/1", 26, 8
    def tokenizer(self):
        return Fours()
    def embed_batch(self, texts):
        assert all(len(text) <= 32 for text in texts), "a text is longer than the window"
        rows = [[text.lower().count(chr(97 + i)) + 0.01 for i in range(26)] for text in texts]
        return np.asarray(rows, dtype=np.float32).reshape(len(texts), 26)
"""
