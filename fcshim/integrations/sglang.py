"""Tool parsers for SGLang: `python -m sglang.launch_server --model-path MODEL --tool-call-parser fcshim`.

Rule: SGLang loads plugins before it reads its arguments, logs what a plugin raises, and makes a parser object for each
choice of a request. Its reasoning parser reads the reply first.
"""

import re
from collections.abc import Sequence

from sglang.srt.function_call.base_format_detector import BaseFormatDetector
from sglang.srt.function_call.core_types import StreamingParseResult, ToolCallItem
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.version import __version__
from xgrammar import StructuralTag

from fcshim.events import JSON
from fcshim.integrations.engines import ReplyReader, check_parameters, model_format, read_choice, structural_tag
from fcshim.messages import AUTO as AUTO_CHOICE
from fcshim.parse.dialects import AUTO, DIALECTS

_PARAMETERS = {
    FunctionCallParser.__init__: "self tools tool_call_parser tokenizer tool_choice prefix constrained",
    BaseFormatDetector.__init__: "self",
    BaseFormatDetector.has_tool_call: "self text",
    BaseFormatDetector.detect_and_parse: "self text tools",
    BaseFormatDetector.parse_streaming_increment: "self new_text tools",
    BaseFormatDetector.finish: "self tools",
    BaseFormatDetector.get_required_tool_parser: "self tool_choice",
    BaseFormatDetector.get_structural_tag: "self tools tool_choice thinking_mode parallel_tool_calls",
}
_SIGN_OF_A_CALL = re.compile(r"[{\[<>`]")
"""Every syntax of calls has one of these. A reply with a sign and without a call is logged by SGLang as a warning."""


def register() -> None:
    """Register the parser `fcshim`, and one with the name of each dialect: `fcshim_hermes`. Raises `ConfigError`."""
    check_parameters("SGLang", __version__, _PARAMETERS)
    FunctionCallParser.ToolCallParserEnum["fcshim"] = FcshimDetector
    for name in DIALECTS:
        detector = type(f"FcshimDetector_{name}", (FcshimDetector,), {"dialect": name})
        FunctionCallParser.ToolCallParserEnum[f"fcshim_{name}"] = detector


class FcshimDetector(BaseFormatDetector):
    """Reads calls from one reply in any dialect; that of the model's chat template comes first."""

    dialect = AUTO

    def __init__(self, tokenizer: JSON = None) -> None:
        super().__init__()
        self._model = model_format(tokenizer, self.dialect)._replace(open_reasoning_tag="")
        self._choice = AUTO_CHOICE
        self._reader: ReplyReader | None = None

    def get_required_tool_parser(self, tool_choice: JSON) -> None:
        """Remember the choice of the request; a call that is demanded is read like others."""
        self._choice = read_choice(tool_choice)

    def has_tool_call(self, text: str) -> bool:
        """Return whether a call may stand in the text."""
        return _SIGN_OF_A_CALL.search(text) is not None

    def detect_and_parse(self, text: str, tools: Sequence[JSON]) -> JSON:
        """Read a whole reply."""
        return _result(self._make_reader(tools).read(text))

    def parse_streaming_increment(self, new_text: str, tools: Sequence[JSON]) -> JSON:
        """Read the next piece of a reply."""
        self._reader = self._reader or self._make_reader(tools)
        return _result(self._reader.feed(new_text))

    def finish(self, tools: Sequence[JSON]) -> JSON:
        """Read the end of a reply."""
        return _result(None if self._reader is None else self._reader.close())

    def structure_info(self) -> JSON:
        """Return nothing: calls are constrained by `get_structural_tag`."""
        raise NotImplementedError

    def get_structural_tag(
        self,
        tools: JSON = None,
        tool_choice: JSON = "auto",
        thinking_mode: bool = False,
        parallel_tool_calls: bool = True,
    ) -> JSON:
        """Return the tag that constrains a reply with a demanded call, or with calls of strict tools.

        A reply has one demanded call: SGLang does not say whether the client has asked for more.
        """
        parallel = None if parallel_tool_calls else False
        tag = structural_tag(_dumped(tools or ()), self._model, read_choice(tool_choice), parallel=parallel)
        return None if tag is None else StructuralTag.model_validate(tag)

    def _make_reader(self, tools: Sequence[JSON]) -> ReplyReader:
        names = self._choice.names
        return ReplyReader(
            [tool for tool in _dumped(tools) if not names or tool["function"]["name"] in names], self._model
        )


def _dumped(tools: Sequence[JSON]) -> list[dict[str, JSON]]:
    return [tool.model_dump(exclude_none=True) for tool in tools]


def _result(delta: dict[str, JSON] | None) -> JSON:
    if delta is None:
        return StreamingParseResult()
    calls = [
        ToolCallItem(
            tool_index=call.get("index", at),
            name=call["function"].get("name"),
            parameters=call["function"]["arguments"],
        )
        for at, call in enumerate(delta.get("tool_calls", ()))
    ]
    return StreamingParseResult(normal_text=delta["content"] or "", calls=calls)
