"""``onnx:FOLDER`` under ``late.model``: a late-interaction model by onnxruntime, without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..core import ConfigError
from ._embedding import Role
from ._folder import ModelFolder, read_json
from ._hf_tokenizer import HFTokenizer
from ._late import LateModel, LateRule, check_late, late_identity, lengths_of
from ._late_form import TokenVectors
from ._onnx import network_output, open_onnx
from ._st import LATE_OUTPUT


class OnnxLate(LateModel):
    """A late-interaction model in a folder that ``export_onnx`` has written.

    Args:
        folder: The folder.

    Raises:
        MissingExtraError: onnxruntime or tokenizers is not installed.
        ConfigError: The folder holds no ONNX file, or one without the model's last layers.
    """

    def __init__(self, folder: str | Path) -> None:
        home, file, self._session = open_onnx(folder)
        check_late(home)
        self.where = str(home)
        if LATE_OUTPUT not in {output.name for output in self._session.get_outputs()}:
            raise ConfigError(
                f"the ONNX file has no output {LATE_OUTPUT}: its last layers are missing",
                where=str(file),
                hint="export the model by ragwright.models.export_onnx(model, folder), or name a "
                "folder that holds its model.safetensors: st:FOLDER",
            )
        self.tokenizer = HFTokenizer(home)
        config = read_json(home / "sentence_bert_config.json")
        self._expansion: dict[str, Any] | None = config.get("query_expansion")
        self._skipped, self._kept = _masks_of(home, self.tokenizer)
        model = ModelFolder.read(home)
        similarity = read_json(home / "config_sentence_transformers.json").get("similarity_fn_name")
        lengths = lengths_of(
            config.get("query_length"),
            config.get("document_length"),
            self._expansion,
            model.window,
        )
        self.rule = LateRule(model.rule.prefixes, lengths, similarity == "meanmaxsim")
        self.identity = late_identity(str(home))
        self.dimensions = int(self.embed_tokens("a", "passage").vectors.shape[1])

    def piece(self, text: str, role: Role) -> TokenVectors:
        """The vectors of a text that starts with the prompt."""
        ids, types, spans = self.tokenizer.placed(text)
        attended = [1] * len(ids)
        missing = 0
        if role == "query" and self._expansion is not None:
            missing = max(0, self._expansion["length"] - len(ids))
            # The export names the token.
            token = self.tokenizer.number(str(self._expansion["token"])) or 0
            ids, types = [*ids, *[token] * missing], [*types, *[0] * missing]
            attended += [int(bool(self._expansion.get("attend")))] * missing
        every = network_output(self._session, LATE_OUTPUT, ids, types, attended)
        counted = ~np.isin(ids, self._skipped[role])
        if role == "passage" and self._kept is not None:
            counted &= np.isin(ids, self._kept)
        places = np.concatenate([spans, np.zeros((missing, 2), np.int32)])
        return TokenVectors(every[counted], places[counted])


def _masks_of(home: Path, tokenizer: HFTokenizer) -> tuple[dict[Role, list[int]], list[int] | None]:
    """Ids of tokens that do not count, by role, and of those that alone count in passages."""
    modules = read_json(home / "modules.json")
    places = [str(m["path"]) for m in modules if str(m["type"]).endswith("MultiVectorMask")]
    config = read_json(home / places[0] / "config.json") if places else {}
    numbers = [tokenizer.number(word) for word in config.get("skiplist_words") or ()]
    skipped = [number for number in numbers if number is not None]
    tasks = config.get("skiplist_tasks") or ["document"]
    return {
        "query": skipped if "query" in tasks else [],
        "passage": skipped if "document" in tasks else [],
    }, config.get("keep_only_token_ids")
