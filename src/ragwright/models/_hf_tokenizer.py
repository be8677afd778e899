"""A model's own tokenizer, from its ``tokenizer.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import ConfigError, Span, require, text_hash
from ._seams import Tokenizer


class HFTokenizer(Tokenizer):
    """A Hugging Face tokenizer as character spans, without special tokens or truncation.

    Args:
        source: A ``tokenizer.json``, the folder that holds one, or a ``tokenizers.Tokenizer``
            (which is copied, so that its truncation and padding stay as they are).

    A character that takes several tokens (byte-level vocabularies) gives spans that overlap.
    """

    def __init__(self, source: str | Path | Any) -> None:
        tokenizers = require("tokenizers", "embed", "a model's own tokenizer")
        if isinstance(source, str | Path):
            path = Path(source)
            path = path / "tokenizer.json" if path.is_dir() else path
            if not path.is_file():
                raise ConfigError(
                    "no tokenizer.json", where=str(path), hint="point to a model's folder"
                )
            try:
                self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
            except Exception as error:
                raise ConfigError(
                    f"tokenizer.json cannot be read: {error}", where=str(path)
                ) from error
        else:
            self._tokenizer = tokenizers.Tokenizer.from_str(source.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        # named by its content: another vocabulary makes other chunks
        self.name = f"hf:{text_hash(self._tokenizer.to_str())[:12]}"

    def spans(self, text: str) -> list[Span]:
        """Character span of every token."""
        return [Span(a, b) for a, b in self._encoded(text, special=False).offsets]

    def pieces(self, text: str) -> list[str]:
        """The tokens as written in the text; those within a word begin with ``##``."""
        encoding = self._encoded(text, special=False)
        pieces, words = [], encoding.word_ids
        for at, (start, end) in enumerate(encoding.offsets):
            inside = at and words[at] is not None and words[at] == words[at - 1]
            pieces.append(f"{'##' if inside else ''}{text[start:end]}")
        return pieces

    def bounds(self, text: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First and end character of every token, as arrays of one length."""
        offsets = np.array(self._encoded(text, special=False).offsets, np.int64).reshape(-1, 2)
        return offsets[:, 0], offsets[:, 1]

    def count(self, text: str) -> int:
        """Number of tokens."""
        return len(self._encoded(text, special=False).ids)

    def ids(self, *texts: str) -> tuple[list[int], list[int]]:
        """Token ids and type ids of one text or of a pair, special tokens included."""
        encoding = self._encoded(*texts, special=True)
        return encoding.ids, encoding.type_ids

    def specials(self, *, pair: bool = False) -> int:
        """Number of special tokens added to one text, or to a pair."""
        return int(self._tokenizer.num_special_tokens_to_add(pair))

    def _encoded(self, *texts: str, special: bool) -> Any:
        # One input at a time: encode_batch would start threads of its own.
        safe = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        return self._tokenizer.encode(*safe, add_special_tokens=special)
