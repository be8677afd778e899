"""Learned sparse models with random weights, made without a download."""

from __future__ import annotations

import string
import warnings
from pathlib import Path
from typing import Any

_SENTENCE = "pump valve oil brake fluid change is hot cold how which code the of on seal two years"


def masked_model(folder: Path, base: Path | None = None) -> Path:
    """A folder with a masked language model: an untrained small BERT, or the one of a folder.

    The head that weighs terms is untrained in either case.
    """
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, BertTokenizerFast

    torch.manual_seed(0)
    folder.mkdir(parents=True)
    if base is not None:
        network = BertForMaskedLM.from_pretrained(str(base)).eval()
        tokenizer = AutoTokenizer.from_pretrained(str(base))
        tokenizer.save_pretrained(folder)
        with torch.no_grad():
            logits = network(**tokenizer("Change the brake fluid.", return_tensors="pt")).logits
        bias = -float(logits.quantile(0.99))  # so that a text has some hundred terms
    else:
        letters = [*string.ascii_lowercase, *string.digits]
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *".,?-", *_SENTENCE.split()]
        pieces += [*letters, *(f"##{letter}" for letter in letters)]
        (folder / "vocab.txt").write_text("\n".join(pieces), "utf-8")
        tokenizer = BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=64)
        tokenizer.save_pretrained(folder)
        network = BertForMaskedLM(
            BertConfig(
                vocab_size=len(pieces),
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=37,
                max_position_embeddings=64,
                initializer_range=0.3,
            )
        )
        bias = -0.5
    with torch.no_grad():
        network.cls.predictions.bias.normal_(bias, 0.3)
    network.save_pretrained(folder)
    return folder


def splade(masked: Path, folder: Path, activation: str = "relu", **settings: Any) -> Path:
    """A SPLADE model over a masked language model, saved as a folder."""
    from sentence_transformers import SparseEncoder

    return _saved(SparseEncoder(modules=_weighing(masked, activation), **settings), folder)


def inference_free(masked: Path, folder: Path) -> Path:
    """A model whose queries are looked up in a table of random weights, saved as a folder."""
    import torch
    from sentence_transformers import SparseEncoder
    from sentence_transformers.base.modules import Router
    from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding
    from transformers import AutoTokenizer

    torch.manual_seed(1)
    tokenizer = AutoTokenizer.from_pretrained(str(masked))
    table = SparseStaticEmbedding(tokenizer, weight=torch.rand(len(tokenizer.get_vocab())))
    router = Router.for_query_document(
        query_modules=[table], document_modules=_weighing(masked, "log1p_relu")
    )
    return _saved(SparseEncoder(modules=[router]), folder)


def _weighing(masked: Path, activation: str) -> list[Any]:
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    transformer = Transformer(str(masked), transformer_task="fill-mask")
    return [transformer, SpladePooling("max", activation_function=activation)]


def _saved(model: Any, folder: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save(str(folder), create_model_card=False)
    return folder
