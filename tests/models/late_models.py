"""Late-interaction models with random weights, made without a download."""

from __future__ import annotations

import json
import shutil
import string
import warnings
from pathlib import Path
from typing import Any

_SENTENCE = "pump valve oil brake fluid change is hot cold how which code the a of on seal"


def small_bert(folder: Path, width: int = 32) -> Path:
    """A folder with an untrained BERT whose vocabulary is a few words and all letters."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    torch.manual_seed(0)
    folder.mkdir(parents=True)
    letters = [*string.ascii_lowercase, *string.digits]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *".,?-", *_SENTENCE.split()]
    pieces += [*letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(pieces), "utf-8")
    tokenizer = BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=64)
    tokenizer.save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=width,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=37,
        max_position_embeddings=64,
        initializer_range=0.3,
    )
    BertModel(config).save_pretrained(folder)
    return folder


def late_model(base: Path, folder: Path, width: int = 16, **settings: Any) -> Path:
    """A MultiVectorEncoder over a transformer, with an untrained projection, saved as a folder.

    ``settings`` are those of its transformer and ``similarity``.
    """
    import torch
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    torch.manual_seed(1)
    similarity = settings.pop("similarity", None)
    transformer = Transformer(str(base), **settings)
    head = Dense(
        transformer.get_embedding_dimension(),
        width,
        bias=False,
        activation_function=torch.nn.Identity(),
        module_input_name="token_embeddings",
    )
    model = MultiVectorEncoder(
        modules=[
            transformer,
            head,
            MultiVectorMask(skiplist_words=list(".,?")),
            Normalize(module_input_name="token_embeddings"),
        ],
        prompts={"query": "how ", "document": "the "},
        similarity_fn_name=similarity,
        device="cpu",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save(str(folder), create_model_card=False)
    return folder


def as_pylate_writes_it(folder: Path) -> None:
    """Turn a saved model into the form that PyLate writes: two layers, settings at the top."""
    for name in ("2_MultiVectorMask", "3_Normalize"):
        shutil.rmtree(folder / name)
    dense = folder / "1_Dense" / "config.json"
    layer = json.loads(dense.read_text("utf-8"))
    del layer["module_input_name"], layer["module_output_name"]
    settings = {
        "model_type": "ColBERT",
        "query_prefix": "[unused0] ",
        "document_prefix": "[unused1] ",
        "query_length": 32,
        "document_length": 60,
        "do_query_expansion": True,
        "attend_to_expansion_tokens": False,
        "skiplist_words": [".", ","],
        "similarity_fn_name": "MaxSim",
    }
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Dense", "type": "pylate.models.Dense.Dense"},
    ]
    files = {
        "1_Dense/config.json": layer,
        "config_sentence_transformers.json": settings,
        "modules.json": modules,
        "sentence_bert_config.json": {"max_seq_length": 60, "do_lower_case": False},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), "utf-8")
