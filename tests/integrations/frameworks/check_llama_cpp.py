"""The chat handler of llama-cpp-python, which runs the embedded model itself."""

import json

import pytest
from llama_cpp import Llama, LlamaGrammar
from llama_cpp.llama_chat_format import LlamaChatCompletionHandlerRegistry, get_chat_completion_handler

from fcshim.demo.gguf_file import TINY_MODEL
from fcshim.demo.tool_client import COMMAND, TOOL
from fcshim.errors import ModelOutputError, RequestError
from fcshim.integrations.llama_cpp import FcshimChatHandler

QUESTION = {"role": "user", "content": COMMAND}
GREETING = {"role": "user", "content": "say hello"}
CALL = '<function_call>\n{"name": "add_numbers", "arguments": {"first": 19, "second": 23}}\n</function_call>'
INVALID = CALL.replace("23", '"many"')


def load(**options):
    return Llama(str(TINY_MODEL), n_ctx=4096, verbose=False, **options)


@pytest.fixture(scope="module")
def plain():
    return load()


@pytest.fixture(scope="module")
def llama():
    return load(chat_handler=FcshimChatHandler())


def folded(chunks):
    """Return the message, the finish reason, and the number of chunks with text and with arguments."""
    text, calls, reason, texts, parts = "", [], None, 0, 0
    for chunk in chunks:
        [choice] = chunk["choices"]
        assert "chat.completion.chunk" == chunk["object"]
        text += choice["delta"].get("content") or ""
        texts += bool(choice["delta"].get("content"))
        for call in choice["delta"].get("tool_calls", ()):
            if call["index"] == len(calls):
                calls.append({"id": call["id"], "type": "function", "function": dict(call["function"])})
            else:
                calls[-1]["function"]["arguments"] += call["function"]["arguments"]
            parts += 1
        reason = choice["finish_reason"] or reason
    message = {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
    return message, reason, texts, parts


def test_a_real_model_streams_two_rounds_of_tools(llama):
    messages = [QUESTION]
    asked, reason, _, parts = folded(llama.create_chat_completion(messages, tools=[TOOL], temperature=0, stream=True))
    [call] = asked["tool_calls"]

    assert ("tool_calls", "add_numbers") == (reason, call["function"]["name"])
    assert {"first": 19, "second": 23} == json.loads(call["function"]["arguments"])
    assert parts > 3

    messages += [asked, {"role": "tool", "tool_call_id": call["id"], "content": "42"}]
    answer, reason, texts, _ = folded(llama.create_chat_completion(messages, tools=[TOOL], temperature=0, stream=True))

    assert ("stop", "add_numbers returned 42") == (reason, answer["content"].strip())
    assert texts > 3


def test_a_whole_reply_is_a_completion(llama):
    reply = llama.create_chat_completion([QUESTION], tools=[TOOL], temperature=0)
    [choice] = reply["choices"]
    [call] = choice["message"]["tool_calls"]

    assert ("chat.completion", "tool_calls") == (reply["object"], choice["finish_reason"])
    assert {"first": 19, "second": 23} == json.loads(call["function"]["arguments"])
    assert reply["usage"]["completion_tokens"] > 10
    assert reply["usage"]["prompt_tokens"] + reply["usage"]["completion_tokens"] == reply["usage"]["total_tokens"]


@pytest.mark.parametrize("options", [{}, {"max_tokens": 3}, {"stop": ["l"]}, {"stop": "o"}, {"max_tokens": -1}])
def test_without_tools_it_is_the_reply_of_the_format_alone(plain, llama, options):
    expected = plain.create_chat_completion([GREETING], temperature=0, **options)
    found = llama.create_chat_completion([GREETING], temperature=0, **options)

    assert expected["usage"] == {name: found["usage"][name] for name in expected["usage"]}
    assert expected["choices"][0]["finish_reason"] == found["choices"][0]["finish_reason"]
    assert expected["choices"][0]["message"]["content"] == found["choices"][0]["message"]["content"]


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "add_numbers"}}])
def test_a_demanded_call_is_constrained(choice):
    llama = load(chat_handler=FcshimChatHandler(max_retries=0))
    reply = llama.create_chat_completion([GREETING], tools=[TOOL], tool_choice=choice, temperature=0, max_tokens=200)
    [call] = reply["choices"][0]["message"]["tool_calls"]

    assert {"first", "second"} == json.loads(call["function"]["arguments"]).keys()
    assert all(isinstance(each, int) for each in json.loads(call["function"]["arguments"]).values())


def test_an_answer_has_its_schema(llama):
    schema = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "city", "schema": schema}}
    reply = llama.create_chat_completion([GREETING], response_format=wanted, temperature=0, max_tokens=200)

    assert json.loads(reply["choices"][0]["message"]["content"])["city"] in {"Oslo", "Rome"}


def test_no_call_is_demanded_by_default(llama):
    reply = llama.create_chat_completion([GREETING], tools=[TOOL], temperature=0)

    assert "tool_calls" not in reply["choices"][0]["message"]


def test_a_grammar_of_the_caller_is_used(llama):
    grammar = LlamaGrammar.from_string('root ::= "yes" | "no"', verbose=False)
    reply = llama.create_chat_completion([GREETING], grammar=grammar, temperature=0)

    assert reply["choices"][0]["message"]["content"] in {"yes", "no"}


def test_it_can_be_a_chat_format():
    registry = LlamaChatCompletionHandlerRegistry()
    registry.register_chat_completion_handler("fcshim", FcshimChatHandler(), overwrite=True)
    reply = load(chat_format="fcshim").create_chat_completion([QUESTION], tools=[TOOL], temperature=0)

    assert 1 == len(reply["choices"][0]["message"]["tool_calls"])


@pytest.mark.parametrize("handler", ["chatml", get_chat_completion_handler("chatml")])
def test_another_format_writes_the_prompt(handler):
    llama = load(chat_handler=FcshimChatHandler(handler))
    reply = llama.create_chat_completion([QUESTION], tools=[TOOL], temperature=0)

    assert 1 == len(reply["choices"][0]["message"]["tool_calls"])


def scripted(*replies, seen=None, **settings):
    """Return a handler that wraps a format whose model writes these replies."""
    left = list(replies)

    def answer(*, llama, messages, **options):
        if seen is not None:
            seen.append((messages, options))
        yield {"choices": [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}]}
        yield {"choices": [{"index": 0, "delta": {"content": left.pop(0)}, "finish_reason": None}]}
        yield {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}

    return FcshimChatHandler(answer, **settings)


def ask(handler, llama, **options):
    return handler(llama=llama, messages=[QUESTION], tools=[TOOL], **options)


def test_a_call_against_its_schema_is_asked_for_again(plain):
    reply = ask(scripted(INVALID, CALL, arguments="validated"), plain)
    [call] = reply["choices"][0]["message"]["tool_calls"]

    assert {"first": 19, "second": 23} == json.loads(call["function"]["arguments"])


def test_a_call_that_stays_invalid_is_an_error_of_the_stream(plain):
    with pytest.raises(ModelOutputError, match="second"):
        list(ask(scripted(*[INVALID] * 9, arguments="validated"), plain, stream=True))


def test_the_format_gets_text_and_the_options_but_no_tools(plain):
    seen = []
    ask(scripted(CALL, seen=seen), plain, temperature=0.5, seed=7, stop=["END"], max_tokens=9)
    [(messages, options)] = seen

    assert (0.5, 7, 9) == (options["temperature"], options["seed"], options["max_tokens"])
    assert not {"tools", "tool_choice"} & options.keys()
    assert "add_numbers" in messages[0]["content"]


@pytest.mark.parametrize(
    ("name", "dialect"), [("qwen3-8b.gguf", "<tool_call>"), ("a.gguf", "<function_call>"), ("", "<function_call>")]
)
def test_the_file_chooses_the_dialect(plain, monkeypatch, name, dialect):
    seen = []
    monkeypatch.setattr(plain, "model_path", f"/models/{name}")
    monkeypatch.setattr(plain, "metadata", {"general.name": "Something"})
    ask(scripted("Hello.", seen=seen), plain)

    assert dialect in seen[0][0][0]["content"]


def test_the_name_in_the_file_chooses_where_that_of_the_file_says_nothing(plain, monkeypatch):
    seen = []
    monkeypatch.setattr(plain, "model_path", "/models/model.gguf")
    monkeypatch.setattr(plain, "metadata", {"general.name": "Qwen3 8B"})
    ask(scripted("Hello.", seen=seen), plain)

    assert "<tool_call>" in seen[0][0][0]["content"]


def test_special_tokens_are_text(plain, llama):
    [token] = plain.tokenize(b"<|im_start|>", add_bos=False, special=True)
    options = {"logit_bias": {token: 100.0}, "max_tokens": 1, "temperature": 0}
    reply = llama.create_chat_completion([GREETING], **options)

    assert "" == plain.create_chat_completion([GREETING], **options)["choices"][0]["message"]["content"]
    assert "<|im_start|>" == reply["choices"][0]["message"]["content"]


def test_leaving_a_stream_leaves_the_model_usable(llama):
    tokenizer = llama.tokenizer_
    stream = llama.create_chat_completion([QUESTION], tools=[TOOL], temperature=0, stream=True)
    next(stream)
    stream.close()

    assert tokenizer is llama.tokenizer_
    assert 1 == len(
        llama.create_chat_completion([QUESTION], tools=[TOOL], temperature=0)["choices"][0]["message"]["tool_calls"]
    )


def test_a_prompt_that_is_too_long_is_the_error_of_the_model(llama):
    with pytest.raises(ValueError, match="exceed context window"):
        llama.create_chat_completion([{"role": "user", "content": "word " * 5000}])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"functions": [TOOL["function"]]}, "functions: expected tools"),
        ({"function_call": "auto"}, "function_call: expected tool_choice"),
        ({"logprobs": True}, "logprobs: expected no logprobs"),
        (
            {"tools": [TOOL], "grammar": LlamaGrammar.from_string('root ::= "a"', verbose=False)},
            "grammar: expected none",
        ),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "other"}}}, "other"),
    ],
)
def test_what_it_does_not_have_is_an_error(llama, options, message):
    with pytest.raises(RequestError, match=message):
        llama.create_chat_completion([QUESTION], **options)
