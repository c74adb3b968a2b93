"""DSPy: its adapter with the endpoint's tools, as its recipe sets it, or its ReAct module, which needs text only."""

import dspy

from tests.clients.frameworks.report import QUESTION, add, run


class Question(dspy.Signature):
    """Answer with tools."""

    question: str = dspy.InputField()
    tools: list[dspy.Tool] = dspy.InputField()
    calls: dspy.ToolCalls = dspy.OutputField()


class Model(dspy.LM):
    supports_function_calling = True


async def converse(api: str, url: str, stream: bool) -> str:
    model = Model("openai/m", api_base=f"{url}/v1", api_key="x", cache=False)
    if api == "react":
        dspy.configure(lm=model)
        return (await ask(dspy.ReAct("question -> answer", tools=[add], max_iters=2), stream, question=QUESTION)).answer
    dspy.configure(lm=model, adapter=dspy.ChatAdapter(use_native_function_calling=True))
    tool = dspy.Tool(add)
    found = await ask(dspy.Predict(Question), stream, question=QUESTION, tools=[tool])
    results = [tool(**call.args) for call in found.calls.tool_calls]
    answer = await ask(dspy.Predict("question, results -> answer"), stream, question=QUESTION, results=str(results))
    return answer.answer


async def ask(program: dspy.Module, stream: bool, **inputs: object) -> dspy.Prediction:
    if not stream:
        return await program.acall(**inputs)
    *_, prediction = [item async for item in dspy.streamify(program)(**inputs)]
    return prediction


run(converse)
