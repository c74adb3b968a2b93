"""Tool parsers for vLLM: `vllm serve MODEL --enable-auto-tool-choice --tool-call-parser fcshim`.

Rule: `register` runs in every process of every vLLM beside which fcshim is installed, so it checks nothing. A parser
that does not fit this vLLM raises when it is made, which vLLM does once before it serves.
"""

import json
from collections.abc import Sequence

from vllm import __version__
from vllm.entrypoints.generate.base.protocol import DeltaMessage, ExtractedToolCallInformation, ToolCall
from vllm.parser.abstract_parser import DelegatingParser
from vllm.sampling_params import StructuredOutputsParams
from vllm.tool_parsers import ToolParser, ToolParserManager

from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.integrations import engines
from fcshim.messages import ToolChoice
from fcshim.parse.dialects import AUTO, DIALECTS

_PARAMETERS = {
    ToolParser.__init__: "self tokenizer tools",
    ToolParser.adjust_request: "self request",
    ToolParser.extract_tool_calls: "self model_output request",
    ToolParser.extract_tool_calls_streaming: "self previous_text current_text delta_text previous_token_ids "
    "current_token_ids delta_token_ids request",
    DelegatingParser._flush_engine_parsers: "self delta_message",  # noqa: SLF001 - it ends the reply
}


def register() -> None:
    """Register the parser `fcshim`, and one with the name of each dialect: `fcshim_hermes`."""
    ToolParserManager.register_module(name="fcshim", module=FcshimToolParser)
    for name in DIALECTS:
        parser = type(f"FcshimToolParser_{name}", (FcshimToolParser,), {"dialect": name})
        ToolParserManager.register_module(name=f"fcshim_{name}", module=parser)


class FcshimToolParser(ToolParser):
    """Reads calls from one reply in any dialect; that of the model's chat template comes first."""

    dialect = AUTO
    supports_required_and_named = False  # the reply is written in the dialect, not as a JSON array
    engine_based_streaming = True
    skip_reasoning_parsing = False
    """Set by vLLM where no parser of its own separates the reasoning first."""

    def __init__(self, tokenizer: JSON, tools: JSON = None) -> None:
        engines.check_parameters("vLLM", __version__, _PARAMETERS)
        super().__init__(tokenizer, tools)
        self._reader: engines.ReplyReader | None = None
        self._last: int | None = None  # the index of the last call in the last delta
        self._end: dict[str, JSON] | None = None  # the delta at the end of the reply
        engines.model_format(tokenizer, self.dialect)

    def adjust_request(self, request: JSON) -> JSON:
        """Constrain a call that is demanded, unless the client constrains the reply with a tag of its own."""
        choice = engines.read_choice(request.tool_choice)
        if not request.tools or choice.mode == "none":
            return request
        request.skip_special_tokens = False  # markers are such tokens
        given = request.structured_outputs
        if choice.mode != "required" or (given is not None and given.structural_tag is not None):
            return request
        model = engines.model_format(self.model_tokenizer, self.dialect)
        # Its default is true: without the field, nobody has asked for more than one call.
        parallel = request.parallel_tool_calls if "parallel_tool_calls" in request.model_fields_set else None
        try:
            tag = engines.structural_tag(self._functions(choice), model, choice, parallel=parallel)
        except RequestError as error:
            raise ValueError(error.message) from error
        if tag is not None:
            request.structured_outputs = StructuredOutputsParams(structural_tag=json.dumps(tag))
            setattr(request, "response_format" if hasattr(request, "response_format") else "text", None)
        return request

    def extract_tool_calls(self, model_output: str, request: JSON) -> JSON:
        """Read a whole reply."""
        message = self._make_reader(request).read(model_output)
        calls = [ToolCall(**call) for call in message.get("tool_calls", ())]
        return ExtractedToolCallInformation(tools_called=bool(calls), tool_calls=calls, content=message["content"])

    def extract_tool_calls_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        request: JSON,
    ) -> JSON:
        """Read the next piece of a reply; only `delta_text` is used."""
        self._reader = self._reader or self._make_reader(request)
        delta = self._reader.feed(delta_text)
        self._last = delta["tool_calls"][-1]["index"] if delta and delta["tool_calls"] else None
        return _message(delta)

    def get_remaining_unstreamed_args(self) -> str:
        """Return what the end of a reply adds to the last call of its last delta, in which a call must stand once."""
        end = self._close()
        if end is None or self._last is None:
            return ""
        calls, end["tool_calls"] = (
            end["tool_calls"],
            [each for each in end["tool_calls"] if each["index"] != self._last],
        )
        return "".join(each["function"]["arguments"] for each in calls if each["index"] == self._last)

    def finish_streaming(self) -> JSON:
        """Read the end of a reply."""
        return _message(self._close())

    def _close(self) -> dict[str, JSON] | None:
        if self._reader is not None:
            self._end = self._reader.close() or self._end
        return self._end

    def _make_reader(self, request: JSON) -> engines.ReplyReader:
        choice = engines.read_choice(request.tool_choice)
        # A tag constrains a demanded call from the first token on, or after the reasoning that vLLM separates.
        reasons = self.skip_reasoning_parsing and choice.mode != "required"
        options = json.dumps(getattr(request, "chat_template_kwargs", None) or {}, sort_keys=True, default=str)
        model = engines.model_format(self.model_tokenizer, self.dialect, options if reasons else "{}")
        try:
            return engines.ReplyReader(
                self._functions(choice),
                model if reasons else model._replace(open_reasoning_tag=""),
                parallel=request.parallel_tool_calls is not False,
                results=engines.result_texts(getattr(request, "messages", None) or getattr(request, "input", None)),
            )
        except RequestError as error:
            raise ValueError(error.message) from error

    def _functions(self, choice: ToolChoice) -> list[dict[str, JSON]]:
        """Return the functions that may be called; custom and provider tools are none."""
        if choice.mode == "none":
            return []
        dumped = [tool.model_dump(exclude_none=True) for tool in self.tools]
        named = [(tool.get("function", tool)["name"], tool) for tool in dumped]
        return [tool for name, tool in named if not choice.names or name in choice.names]


def _message(delta: dict[str, JSON] | None) -> JSON:
    return None if delta is None else DeltaMessage(**delta)
