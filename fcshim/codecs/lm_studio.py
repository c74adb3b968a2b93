"""Writes LM Studio's lists of models, from which Zed and others read context lengths and which models call tools.

Rule: every model is listed as capable of tools, because with fcshim every model is.
"""

from collections.abc import Sequence

from fcshim.codecs.base import RequestTarget
from fcshim.codecs.json_text import write_json
from fcshim.codecs.model_info import ModelInfo, find_model
from fcshim.events import JSON


class LmStudio:
    """Describes models at `/api/v0/models`; its clients chat by OpenAI's API below the same prefix."""

    def described_name(self, target: RequestTarget, body: bytes) -> str | None:  # noqa: ARG002  # contract
        """Return the name in the path; None for the list."""
        return target.path_params.get("model")

    def describe(self, target: RequestTarget, body: bytes, models: Sequence[ModelInfo]) -> bytes:
        """Write the list, or the one model that is asked for. Raises `RequestError`."""
        name = self.described_name(target, body)
        if name is not None:
            return write_json(_entry(find_model(models, name)))
        return write_json({"object": "list", "data": [_entry(model) for model in models]})


def _entry(model: ModelInfo) -> dict[str, JSON]:
    length = {"max_context_length": model.context_length, "loaded_context_length": model.context_length}
    return {
        "id": model.name,
        "object": "model",
        "type": "vlm" if model.vision else "llm",
        "publisher": "fcshim",
        "arch": "llama",
        "compatibility_type": "gguf",
        "quantization": "",
        "state": "loaded",
        **(length if model.context_length else {}),
        "capabilities": ["tool_use"],
    }


LM_STUDIO = LmStudio()
